// Package operator answers what an operator asks of a hub and does what he tells
// it: which topics and subscriptions there are, whether a notification was delivered
// to all, what to try again, to replay or to remove.
//
// Each process knows the subscriptions of the shards that it holds. Where several
// share an engine, a Desk asks the others (Peers) and puts the answers together, so
// that every process gives the same answer, whichever is asked. An answer says what
// it could not see: Coverage names how many shards nobody answered for.
//
//	page, API, command line ──▶ Desk ──▶ this process: delivery, subscription, source
//	                              │
//	                              └─Peers─▶ Desk of each other process, its own part only
//
// What it shows of a callback in lists is its host: the rest of the URL may be a
// capability. It never shows a secret or a token that was not made for this very answer.
//
// Package admin serves a Desk over HTTP; cmd/hub makes it.
package operator
