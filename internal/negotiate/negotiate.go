// Package negotiate reads the header fields by which a client says which representation of a
// document it accepts, and which it has (RFC 9110 §12, §13). It writes no response.
package negotiate

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
)

// Gzip reports whether Accept-Encoding accepts gzip (RFC 9110 §12.5.3). An entry for gzip by name
// counts more than one for "*".
func Gzip(header http.Header) bool {
	accepted := false
	for item := range items(header.Values("Accept-Encoding")) {
		name, params, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return quality(params) > 0
		case "*":
			accepted = quality(params) > 0
		}
	}
	return accepted
}

// quality returns the value of the parameter q: 1 without one, 0 for one that is no number.
func quality(params string) float64 {
	key, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(key), "q") {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return 0
	}
	return q
}

// HasTag reports whether If-None-Match names the entity tag, which is quoted and has no comma
// (RFC 9110 §13.1.2).
func HasTag(header http.Header, tag string) bool {
	for item := range items(header.Values("If-None-Match")) {
		if item == "*" || strings.TrimPrefix(item, "W/") == tag {
			return true
		}
	}
	return false
}

// items returns the items of a header field that is a list.
func items(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for item := range strings.SplitSeq(strings.Join(lines, ","), ",") {
			if item = strings.TrimSpace(item); item != "" && !yield(item) {
				return
			}
		}
	}
}
