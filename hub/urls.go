package hub

import (
	"fmt"
	"net/url"
	"strings"

	"carillon/subscription"
)

// normalHub returns the form of a hub's URL by which it is compared: scheme and
// host in lower case, no default port, unreserved characters decoded (RFC 3986
// §6.2.2, §6.2.3), and no slash at the end, as the hub is served with and
// without it. It is empty for what is not an absolute URL.
func normalHub(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	host = strings.TrimSuffix(host, ":")
	normal := u.Scheme + "://" + host + strings.TrimSuffix(upperEscapes(subscription.Key(u.EscapedPath())), "/")
	if u.RawQuery != "" {
		normal += "?" + upperEscapes(subscription.Key(u.RawQuery))
	}
	return normal
}

// upperEscapes writes the hexadecimal digits of percent-encodings in upper case
// (RFC 3986 §6.2.2.1).
func upperEscapes(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToUpper(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// query is one parameter to append to a callback.
type query struct{ name, value string }

// appendQuery appends parameters to a callback's query. What the callback holds
// stays byte for byte, whatever it is: it is the prefix of the result (WebSub
// §5.1.1). Parameters of the same name that it has already are left alone.
//
// Spaces become %20, which every reader of queries decodes.
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
		fmt.Fprintf(&b, "%s=%s", p.name, strings.ReplaceAll(url.QueryEscape(p.value), "+", "%20"))
		sep = '&'
	}
	return b.String()
}
