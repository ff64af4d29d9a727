package delivery

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// splitCallback cuts an absolute http or https URL at its seams, without
// decoding anything. The fragment is left out: it is never sent.
func splitCallback(raw string) (scheme, host, path, query string, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", "", "", "", errors.New("the callback is no http or https URL")
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		query = "?" + query
	}
	host = rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if host == "" || strings.Contains(host, "@") {
		return "", "", "", "", errors.New("the callback names no host, or a user")
	}
	return scheme, host, path, query, nil
}

// hostOf returns what callbacks of one host share: scheme, name and port. What
// cannot be told apart is one host.
func hostOf(callback string) string {
	scheme, host, _, _, err := splitCallback(callback)
	if err != nil {
		return ""
	}
	host = strings.ToLower(host)
	if scheme == "http" {
		host = strings.TrimSuffix(host, ":80")
	} else {
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host
}

// parseTarget returns a URL with which net/http sends exactly the path and the
// query of the callback (WebSub §5.1.1, §8.3): url.Parse would decode them and
// write them again in its own spelling. Only bytes that no request line can
// hold are percent-encoded.
func parseTarget(callback string) (*url.URL, error) {
	scheme, host, path, query, err := splitCallback(callback)
	if err != nil {
		return nil, err
	}
	// The host alone is for url.Parse to judge: brackets, zones, ports.
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return nil, fmt.Errorf("the callback's host: %w", err)
	}
	if path == "" {
		path = "/"
	}
	if strings.HasPrefix(path, "//") {
		// net/http takes an Opaque that begins so for a host: the absolute
		// form keeps the path as it is (RFC 9112 §3.2.2).
		path = "//" + u.Host + path
	}
	u.Opaque = fitRequestLine(path)
	if query != "" {
		u.RawQuery = fitRequestLine(query[1:])
		u.ForceQuery = u.RawQuery == ""
	}
	return u, nil
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
