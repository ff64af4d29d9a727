package hub

import (
	"net/url"
	"strings"

	"carillon/topic"
)

// normalHub returns the form of a hub's URL by which it is compared: the server as topic.Server
// returns it, path and query Canonical, and no slash at the end of the path, as the hub is served
// with and without it. It is empty for what is no absolute URL.
func normalHub(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return ""
	}
	normal := topic.Server(u) + strings.TrimSuffix(topic.Canonical(u.EscapedPath()), "/")
	if u.RawQuery != "" {
		normal += "?" + topic.Canonical(u.RawQuery)
	}
	return normal
}

// query is one parameter to append to a callback.
type query struct{ name, value string }

// appendQuery appends parameters to a callback's query. The callback stays byte for byte, whatever it
// holds: it is the prefix of the result (WebSub §5.1.1). Parameters of the same name that it has
// already are left alone.
//
// Values are percent-encoded where a reader of queries could misread them, and nowhere else (RFC 3986
// §3.4): a client that has the hub write a long topic must not have it write a longer one.
func appendQuery(callback string, params ...query) string {
	var b strings.Builder
	b.WriteString(callback)
	sep := byte('&')
	switch i := strings.IndexByte(callback, '?'); {
	case i < 0:
		sep = '?'
	case i == len(callback)-1 || strings.HasSuffix(callback, "&"):
		sep = 0
	}
	for _, p := range params {
		if sep != 0 {
			b.WriteByte(sep)
		}
		b.WriteString(p.name)
		b.WriteByte('=')
		writeQueryValue(&b, p.value)
		sep = '&'
	}
	return b.String()
}

// writeQueryValue writes a value so that every reader of queries finds it again.
func writeQueryValue(b *strings.Builder, value string) {
	const hexDigits = "0123456789ABCDEF"
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~:/?@!$'()*,=", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
}
