package egress

import (
	"net/url"
	"strings"

	"carillon/topic"
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

// split is topic.Cut, with an error for a URL that no request should be made to.
func split(raw string) (scheme, host, path, query string, err error) {
	scheme, host, path, query, ok := topic.Cut(raw)
	switch {
	case scheme == "":
		return "", "", "", "", &BadURL{"must be an absolute URL with the scheme http or https"}
	case !ok || strings.Contains(host, "@"):
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

// RequestTarget is Target for callers that write the request line themselves. It returns whether the
// URL is https, its host as the URL spells it, and the part between the method and the version. A
// plain URL costs no memory. It fails with ErrBadURL.
func RequestTarget(raw string) (secure bool, authority, target string, err error) {
	scheme, host, path, query, err := split(raw)
	if err != nil {
		return false, "", "", err
	}
	secure = scheme == "https"
	if !plainHost(host) || strings.HasPrefix(path, "//") {
		u, err := Target(raw)
		if err != nil {
			return false, "", "", err
		}
		return secure, u.Host, u.RequestURI(), nil
	}
	if path == "" {
		return secure, host, "/" + fitRequestLine(query), nil
	}
	at := len(scheme) + len("://") + len(host)
	return secure, host, fitRequestLine(raw[at : at+len(path)+len(query)]), nil
}

// plainHost recognizes the hosts that url.Parse takes as they are: letters, digits, dots and hyphens,
// perhaps with a port.
func plainHost(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	for i := 0; i < len(name); i++ {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	for i := 0; i < len(port); i++ {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return name != "" && hasPort == (port != "")
}
