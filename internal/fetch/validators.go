package fetch

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// grain is how old a Last-Modified must be to tell versions apart: it counts seconds, and a
	// resource may change twice in one (RFC 9110 §8.8.2.2).
	grain = 2 * time.Second
	// maxKept is how long a validator may be that is kept, bytes.
	maxKept = 1024
)

// Validators say which version of a resource a response has (RFC 9110 §8.8). Both are empty where
// nothing says so.
type Validators struct{ ETag, LastModified string }

// ValidatorsOf returns the validators of a response that a later request may use. It returns none
// for a resource that was modified within two seconds of its response: many servers make their
// ETags of that time, too.
func ValidatorsOf(h http.Header) (v Validators) {
	if tag := h.Get("ETag"); len(tag) <= maxKept {
		v.ETag = tag
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return v
	}
	if date, err := http.ParseTime(h.Get("Date")); err != nil || date.Sub(modified) < grain {
		return Validators{}
	}
	v.LastModified = h.Get("Last-Modified")
	return v
}

// Ask makes a request conditional: the response is 304 where the resource is still the same.
func (v Validators) Ask(h http.Header) {
	if v.ETag != "" {
		h.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		h.Set("If-Modified-Since", v.LastModified)
	}
}

// Strong returns those that say that every byte is the same, which a weak ETag does not.
func (v Validators) Strong() Validators {
	if strings.HasPrefix(v.ETag, "W/") {
		v.ETag = ""
	}
	return v
}

// Range makes a request ask for the bytes from the offset on, or for all of them where the resource
// is not the same any more (If-Range, RFC 9110 §13.1.5). The validators must be strong.
func (v Validators) Range(h http.Header, offset int64) {
	h.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	h.Set("If-Range", cmp.Or(v.ETag, v.LastModified))
}
