package fetch

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Hostname returns the host of u in the form by which hosts are compared. Only the letters of ASCII
// become lower case: strings.ToLower makes i of U+0130, and DNS another name.
func Hostname(u *url.URL) string {
	lower := func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return strings.TrimSuffix(strings.Map(lower, u.Hostname()), ".")
}

// Port returns the port at which u is asked.
func Port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Authority returns the host and the port of u, without a port where it is that of the scheme.
// http and https at their own ports have the same one.
func Authority(u *url.URL) string {
	port := Port(u)
	if port == Port(&url.URL{Scheme: u.Scheme}) {
		port = ""
	}
	return net.JoinHostPort(Hostname(u), port)
}

// SameServer reports whether to is at the server of from: the same scheme, host and port, or https
// in place of http, each at its own port. It is the rule for redirects and links, unless the
// operator names other hosts.
func SameServer(from, to *url.URL) bool {
	if Hostname(from) != Hostname(to) {
		return false
	}
	return from.Scheme == to.Scheme && Port(from) == Port(to) ||
		from.Scheme == "http" && to.Scheme == "https" && Port(from) == "80" && Port(to) == "443"
}

// StayAtServer is a Client.Lead that refuses redirects to another server.
func StayAtServer(from, to *url.URL) error {
	if SameServer(from, to) {
		return nil
	}
	return fmt.Errorf("it redirects to %.200q, which is another host", to)
}
