package payload

import (
	"bytes"
	"strings"
)

// sniffBytes is how far IsNotification looks. The head of a notification is a
// few hundred bytes.
const sniffBytes = 64 << 10

// IsNotification tells, by its first lines, whether body is a ResourceSync
// notification: an XML document whose root is urlset, in the sitemap namespace
// under any prefix, with an rs:md before the first url whose capability ends in
// "-notification". Whether it is a good one ValidateNotification tells.
//
// It looks no further than the first url and at most at 64 KiB, whatever the
// body is. What has a document type declaration, or is not in UTF-8, is none.
func IsNotification(body []byte) bool {
	lim := Limits{Bytes: sniffBytes, EntryBytes: sniffBytes}.withDefaults()
	head := body[:min(len(body), sniffBytes)]
	if !bytes.HasPrefix(trimSpace(bytes.TrimPrefix(head, utf8Mark)), []byte{'<'}) {
		return false // what is no XML is not worth a reader
	}
	r := newReader(newBytesScanner(head, lim), lim)
	// An error further on in the head is for the validator to name.
	_ = r.begin()
	capability := r.head.get(r.head.md[fCapability])
	return r.root == RootURLSet && strings.HasSuffix(string(capability), notificationSuffix)
}
