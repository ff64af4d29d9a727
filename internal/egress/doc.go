// Package egress is the one way out: the dialer of every request to an address that a stranger chose,
// for callbacks and for topics alike. internal/h1 makes the requests, over connections that the dialer
// opens.
//
// # Guarantees
//
// Private, loopback, link-local, multicast and other special addresses are refused: those of the IANA
// registries of special-purpose addresses, translated and tunnelled IPv4 included. The check is of the
// address that is really dialed, after the name was resolved, on every attempt. So a name that changes
// its address (DNS rebinding) gains nothing. The ports of other services than the web are refused
// likewise. No proxy of the environment is used. TLS certificates are verified.
//
// Answers for names are remembered for as long as their name servers allow (Names). A name server that
// is dead, slow or hostile holds up only the requests for its names, and those not for long.
//
// # Limits
//
// It limits neither requests nor connections, which is for the client that makes them. It believes the
// name servers of the system: answers are not validated by DNSSEC. With the operator's Proxy, names
// are resolved there, and the dialed address cannot be judged here.
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
