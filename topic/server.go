package topic

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Origin returns scheme, host and port of an address, in one form for all spellings of one
// server: the host as Host returns it, and no default port. It is empty for what is no http or
// https URL, or has a host longer than a name can be.
func Origin(raw string) string {
	scheme, authority := server(raw)
	if authority == "" {
		return ""
	}
	return scheme + "://" + authority
}

// Authority returns host and port of an address, as Origin returns them. Logs, traces and limits
// that do not tell http from https use it.
func Authority(raw string) string {
	_, authority := server(raw)
	return authority
}

// Host returns the host of an address without its port. A name is in lower case and without a
// last dot; an IP address is in its shortest form and without a zone. It is empty for what is no
// http or https URL, or has a host longer than a name can be.
func Host(raw string) string {
	_, authority, _, _, ok := Cut(raw)
	if !ok {
		return ""
	}
	return hostOf(withoutUser(authority))
}

// server returns the scheme of an address, and its host and port without the default port.
func server(raw string) (scheme, authority string) {
	scheme, spelled, _, _, ok := Cut(raw)
	if !ok {
		return "", ""
	}
	u := withoutUser(spelled)
	host := hostOf(u)
	if host == "" {
		return "", ""
	}
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	standard := uint64(80)
	if scheme == "https" {
		standard = 443
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil && port != standard {
		host += ":" + strconv.FormatUint(port, 10)
	}
	return scheme, host
}

// Cut splits an absolute http or https URL at its seams, and decodes nothing. The scheme is in
// lower case. The authority keeps a user name. The query keeps its question mark, as an empty query
// differs from none. A fragment is left out. A URL without an authority is not ok.
func Cut(raw string) (scheme, authority, path, query string, ok bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", "", "", "", false
	}
	rest, _, _ = strings.Cut(rest, "#")
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, query = rest[:i], rest[i:]
	}
	authority = rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	return scheme, authority, path, query, authority != ""
}

// withoutUser returns a URL of host and port alone.
func withoutUser(authority string) *url.URL {
	return &url.URL{Host: authority[strings.LastIndexByte(authority, '@')+1:]}
}

// maxName is how long a name can be (RFC 1035 §2.3.4).
const maxName = 253

// hostOf returns the host of a URL in one form for all its spellings.
func hostOf(u *url.URL) string {
	host := strings.TrimSuffix(u.Hostname(), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	if len(host) > maxName || strings.HasSuffix(host, ".") || strings.IndexByte(host, '%') >= 0 {
		return ""
	}
	return Lower(host)
}
