// Package egress is the one way out: the dialer through which every request to
// an address that a stranger chose is made, for callbacks and for topics alike.
//
// What it guarantees: private, loopback, link-local, multicast and other special
// addresses (the IANA registries of special-purpose addresses, translated and
// tunnelled IPv4 included) are refused by the address that is really dialed, after
// the name was resolved, on every attempt, so that a name which changes its mind
// (DNS rebinding) gains nothing; its transports follow no redirects, use no proxy
// from the environment, speak HTTP/1.1 only and ask for no compression; TLS
// certificates are verified.
//
// What it does not: it has no opinion on ports, and does not limit how many
// requests are made, only how many connections one host gets.
package egress
