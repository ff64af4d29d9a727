// Package egress is the one way out: the dialer through which every request to
// an address that a stranger chose is made, for callbacks and for topics alike.
//
// It refuses private, link-local and other special addresses by the address
// that is really dialed, after the name was resolved, on every attempt. It
// follows no redirects, uses no proxy from the environment and asks for no
// compression.
package egress
