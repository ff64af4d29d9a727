package check

import (
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// maxQuoted is how much of a stranger's text is repeated, characters.
const maxQuoted = 200

// quote makes a stranger's text short, and fit for one line.
func quote(s string) string { return fmt.Sprintf("%.*q", maxQuoted, s) }

// reason is an error as a part of a finding. Some repeat what a server has sent.
func reason(err error) string {
	return legible.CutTo(err.Error(), maxQuoted)
}

// finite is a time of a document, zero for none.
func finite(told string) time.Time {
	at, err := payload.ParseDatetime(strings.TrimSpace(told))
	if told == "" || err != nil {
		return time.Time{}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// written is a time in the form that core 7 recommends.
func written(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// isComplete reports whether a datetime has a time of day.
func isComplete(told string) bool { return strings.Contains(told, "T") }

// nth is the name of an element of an entry: url[3], sitemap[3].
func nth(index bool, n int) string {
	name := "url["
	if index {
		name = "sitemap["
	}
	return name + strconv.Itoa(n) + "]"
}

func mediaTypeOf(told string) string {
	name, _, err := mime.ParseMediaType(told)
	if err != nil {
		return told
	}
	return name
}

// isXML reports whether a Content-Type is that of XML.
func isXML(told string) bool {
	mediaType, _, err := mime.ParseMediaType(told)
	return err == nil && (mediaType == "application/xml" || mediaType == "text/xml" ||
		strings.HasSuffix(mediaType, "+xml"))
}
