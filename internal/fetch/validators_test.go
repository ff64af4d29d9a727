package fetch_test

import (
	"net/http"
	"strings"
	"testing"

	"carillon/internal/fetch"
)

// TestValidators checks what a later request may say of the response before.
func TestValidators(t *testing.T) {
	const before, now, just = "Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 03:04:07 GMT", "Fri, 02 Jan 2026 03:04:06 GMT"
	for name, tt := range map[string]struct {
		etag, modified, date string
		want                 fetch.Validators
		strong               string
	}{
		"both":                   {`"1"`, before, now, fetch.Validators{ETag: `"1"`, LastModified: before}, `"1"`},
		"an ETag alone":          {`"1"`, "", "", fetch.Validators{ETag: `"1"`}, `"1"`},
		"a weak ETag":            {`W/"1"`, "", now, fetch.Validators{ETag: `W/"1"`}, ""},
		"a weak ETag and a time": {`W/"1"`, before, now, fetch.Validators{ETag: `W/"1"`, LastModified: before}, before},
		"modified just now":      {`"1"`, just, now, fetch.Validators{}, ""},
		"modified in the future": {`"1"`, now, before, fetch.Validators{}, ""},
		"no Date":                {"", before, "", fetch.Validators{}, ""},
		"a time that is none":    {`"1"`, "yesterday", now, fetch.Validators{ETag: `"1"`}, `"1"`},
		"an ETag without end":    {`"` + strings.Repeat("1", 2000) + `"`, before, now, fetch.Validators{LastModified: before}, before},
		"nothing":                {"", "", now, fetch.Validators{}, ""},
		"a time of another format": {"", "Friday, 02-Jan-26 03:04:05 GMT", now, fetch.Validators{
			LastModified: "Friday, 02-Jan-26 03:04:05 GMT",
		}, "Friday, 02-Jan-26 03:04:05 GMT"},
	} {
		h := http.Header{}
		h.Set("ETag", tt.etag)
		h.Set("Last-Modified", tt.modified)
		h.Set("Date", tt.date)
		got := fetch.ValidatorsOf(h)
		if got != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
		part := http.Header{}
		got.Strong().Range(part, 1000)
		if part.Get("Range") != "bytes=1000-" || part.Get("If-Range") != tt.strong {
			t.Errorf("%s: asks with %v", name, part)
		}
		ask := http.Header{}
		got.Ask(ask)
		if ask.Get("If-None-Match") != got.ETag || ask.Get("If-Modified-Since") != got.LastModified {
			t.Errorf("%s: asks with %v", name, ask)
		}
		if got == (fetch.Validators{}) && len(ask) > 0 {
			t.Errorf("%s: asks with %v", name, ask)
		}
	}
}
