// Package egress is the one way out: the dialer through which every request to
// an address that a stranger chose is made, for callbacks and for topics alike.
// internal/h1 makes the requests, over connections that the dialer opens.
//
// What it guarantees: private, loopback, link-local, multicast and other special
// addresses (the IANA registries of special-purpose addresses, translated and
// tunnelled IPv4 included) are refused by the address that is really dialed, after
// the name was resolved, on every attempt, so that a name which changes its mind
// (DNS rebinding) gains nothing; the ports of other services than the web are refused
// likewise; it uses no proxy from the environment; TLS certificates are verified.
// Names are asked for once and remembered for as long
// as their name servers say (Names); a name server that is dead, slow or hostile
// keeps nobody waiting but those who need it, and nobody for long.
//
// What it does not: it limits neither requests nor connections, which is for the client
// that makes them. It believes the name servers of the system: answers are
// not validated by DNSSEC. Where the operator has a Proxy, names are resolved there, and
// the address that is dialed cannot be judged here.
//
// A dial to a name goes this way:
//
//	DialContext ──▶ admit: port, address, name ──▶ Proxy, if it carries the host: CONNECT
//	                     │
//	                     ▼
//	                Names.Lookup ──remembered───────────────┐
//	                     │ asks, shared by all who want it  ▼
//	                     ▼                              addresses ──▶ race of the families
//	                 places: in all and of a domain         ▲              │ each address
//	                     ▼                                  │              ▼
//	                 net.Resolver ──tap: the lifetimes──────┘          control: ErrForbidden
package egress
