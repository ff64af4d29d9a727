package hub

import (
	"bytes"
	"net/http"
	"strings"

	"carillon/payload"
)

// finding is what a body shows of itself.
type finding struct {
	from, until string // of a ResourceSync notification
	// miss is the reason why a body that looks like a ResourceSync notification is not one; nil for other
	// bodies.
	miss *payload.Miss
}

// judge returns the interval of a ResourceSync notification, and refuses one
// that comes with the wrong media type or breaks the format (CN §3, §4.1). It refuses XML that
// declares entities: expanding them may exhaust the memory of every subscriber's parser. Other
// content is not judged.
func judge(media string, body []byte) (f finding, err error) {
	if (media == "application/xml" || media == "text/xml") && payload.DeclaresEntities(body) {
		return f, badRequest(
			"The document type declaration declares entities, which may exhaust the parsers of subscribers: remove <!ENTITY.",
		)
	}
	switch like, miss := payload.Recognize(body); like {
	case payload.Unlike:
		return f, nil
	case payload.Lookalike:
		return finding{miss: &miss}, nil
	}
	if media != "application/xml" {
		return f, refuse(
			http.StatusUnsupportedMediaType, "A ResourceSync notification must come as application/xml (CN 4.1).",
		)
	}
	summary, err := payload.ValidateNotification(bytes.NewReader(body))
	return finding{from: summary.From, until: summary.Until}, err
}

// octets is the media type of what comes without one (RFC 9110 §8.3).
const octets = "application/octet-stream"

// plainType reports whether a Content-Type is short, and of the ASCII that media types are made
// of: it stands in every delivery, and in what operators read.
func plainType(ct string) bool {
	return len(ct) <= maxContentType && !strings.ContainsFunc(
		ct, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' },
	)
}

// contentType returns the Content-Type of an answer as it is relayed.
func contentType(header http.Header) string {
	ct := header.Get("Content-Type")
	if ct == "" || !plainType(ct) {
		return octets
	}
	return ct
}

// maxContentType is the longest Content-Type that is relayed, bytes.
const maxContentType = 256
