package egress

import "strings"

// RequestTarget is Target for those who write the request line themselves: whether
// the URL is https, its host as the URL spells it, and what stands between the method
// and the version. What is plain costs no memory. It fails with ErrBadURL.
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

// plainHost tells the hosts that url.Parse takes as they are: letters, digits, dots
// and hyphens, perhaps with a port.
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
