// Package operator answers an operator's questions about a hub and carries out his orders: which
// topics and subscriptions there are, whether a notification was delivered to all, what to try again,
// to replay or to remove.
//
// Each process knows the subscriptions of the shards that it holds. Where several share an engine, a
// Desk asks the others (Peers) and puts the answers together, so that every process gives the same
// answer. An answer names the missing part: Coverage has the number of shards without an answer.
//
//	page, API, command line ──▶ Desk ──▶ this process: delivery, subscription, source
//	                              │
//	                              └─Peers─▶ Desk of each other process, its own part only
//
// Lists show only the host of a callback: the rest of the URL may be a capability. A Desk never shows
// a secret, nor a token that was not made for this very answer.
//
// Package api serves a Desk over HTTP; cmd/hub makes it.
package operator
