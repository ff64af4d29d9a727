// Package subscription holds the subscriptions of a hub, the rules for their leases, and the life of
// the requests that make and end them.
//
// # The life of a request
//
//	POST (form) ── Submit ──▶ accepted (202, durable)
//	                             │
//	                 subscribe?  ├─ topic check says no ──▶ denied (hub.mode=denied) ──▶ forgotten
//	                             ▼
//	                         verifying ── GET callback, hub.challenge
//	                             │
//	              no answer: again, three times over a minute, then forgotten
//	              any answer but 2xx with exactly the challenge: forgotten
//	                             ▼
//	         2xx + challenge: subscribe   ──▶ active until the lease ends
//	                          unsubscribe ──▶ removed
//
// Guarantees: a request that was answered 202 is carried through even if the process dies in between,
// or loses its shard. Until a request is verified its subscription stays unchanged (WebSub §5.1). Of
// several requests for one topic and callback only the last counts. No lease is perpetual.
//
// Before a callback is asked the first time, the start of its subscription is stored with the request
// (Store.KeepStart), and a request that replaces it inherits the start. So a subscriber that answered
// a challenge gets every publication from then on, whichever of its requests is settled in the end,
// and by which process. A callback is asked about one request at a time; a replacement waits for the
// answer, and is settled by it if it asks for the same.
//
// An active subscription can also be denied (Deny), when its topic has left the hub; its callback then
// gets the denial.
//
// # Several processes on one store
//
// The owner of an ID's shard does all its work; the other processes take requests and leave them in
// the store.
//
//	any process:  Submit ── durable (202) ── shard is ours? ── yes ──▶ worked on
//	                                              └── no ──▶ left to its owner
//	its owner:    Requested (called by the store), Refresh (looks again), Gained
//	              (found in the store) ─────────────────────────▶ worked on
//	              Lost ──▶ forgotten here; the next owner begins anew
//
// So a callback may be asked once more where a shard changes hands in the middle of a verification. A
// former owner that comes late, because it did not know of its loss, may still settle a request. The
// store settles a request once. A process that finds it settled, or replaced, reads the present state
// and passes it on to delivery. A waiting denial is known to one process alone and is lost with it, or
// with the shard; the subscription has ended by then.
//
// A host that hangs holds a few places and no more (Config.PerHost), and a waiting request has no
// goroutine. Trouble with the store stops nothing: every change is repeated until the store takes it,
// and a verified callback is not asked again. Delivery hears of changes in the order in which they
// were stored, also of those that were stored by a call that seemed to fail.
//
// The package speaks no HTTP. The topic check and the verification of intent are interfaces that
// package hub implements; storage is the Store interface that the engines implement. Package hub
// submits requests, and a Roster follows active and ended subscriptions for delivery. cmd/hub passes
// on gained and lost shards, and news of other processes.
package subscription
