package egress

import (
	"net/url"
	"strconv"
	"strings"
)

// Target returns a URL with which net/http sends exactly the path and the query
// of an absolute http or https URL (WebSub §5.1.1, §8.3): url.Parse would decode
// them and write them again in its own spelling. Only bytes that no request line
// can hold are percent-encoded. A fragment is left out. It fails with ErrBadURL.
//
// What it returns is for a request: its String is not the URL that was given.
func Target(raw string) (*url.URL, error) {
	scheme, host, path, query, err := split(raw)
	if err != nil {
		return nil, err
	}
	// The host alone is for url.Parse to judge: brackets, zones, ports.
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return nil, &BadURL{"is not a URL: its host cannot be parsed"}
	}
	setPath(u, fitRequestLine(path))
	if query != "" {
		u.RawQuery = fitRequestLine(query[1:])
		u.ForceQuery = u.RawQuery == ""
	}
	return u, nil
}

// setPath makes path what the request line begins with.
func setPath(u *url.URL, path string) {
	switch {
	case path == "":
		u.Opaque = "/"
	case !strings.HasPrefix(path, "//"):
		u.Opaque = path
	default:
		// net/http takes an Opaque that begins so for a host. Where Path would not
		// be written as it came, the absolute form keeps it (RFC 9112 §3.2.2).
		u.Path, _ = url.PathUnescape(path)
		u.RawPath = path
		if u.EscapedPath() != path {
			u.Opaque = "//" + u.Host + path
		}
	}
}

// Origin returns what the URLs of one server share: scheme, host and port, the host as
// Host tells it and without the port that the scheme implies, however they are spelled.
// It is empty for what is no http or https URL, or has a host longer than any name.
func Origin(raw string) string {
	scheme, host, _, _, err := split(raw)
	if err != nil {
		return ""
	}
	u := url.URL{Scheme: scheme, Host: host}
	name := oneHost(u.Hostname())
	if name == "" {
		return ""
	}
	if addr, ok := literal(name); ok && addr.Is6() {
		name = "[" + name + "]"
	}
	if port := portOf(&u); port != portOf(&url.URL{Scheme: scheme}) {
		name += ":" + strconv.Itoa(int(port))
	}
	return scheme + "://" + name
}

// Host returns the host of a URL without its port: what one operator answers for. A name is
// in lower case and without a last dot, an address in its shortest form. It is empty for
// what is no http or https URL, or has a host longer than any name.
func Host(raw string) string {
	_, host, _, _, err := split(raw)
	if err != nil {
		return ""
	}
	return oneHost((&url.URL{Host: host}).Hostname())
}

// split cuts an absolute http or https URL at its seams, without decoding
// anything. The query keeps its question mark, as an empty one is not none.
func split(raw string) (scheme, host, path, query string, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", "", "", "", &BadURL{"must be an absolute URL with the scheme http or https"}
	}
	rest, _, _ = strings.Cut(rest, "#")
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, query = rest[:i], rest[i:]
	}
	host = rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if host == "" || strings.Contains(host, "@") {
		return "", "", "", "", &BadURL{"must have a host, and no user name"}
	}
	return scheme, host, path, query, nil
}

// fitRequestLine percent-encodes controls, spaces and what is not ASCII.
func fitRequestLine(s string) string {
	const hexDigits = "0123456789ABCDEF"
	odd := 0
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			odd++
		}
	}
	if odd == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*odd)
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
