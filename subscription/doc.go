// Package subscription holds who wants what: the subscriptions of a hub, the
// rules for their leases, and the life of the requests that make and end them.
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
// What it guarantees: a request that was answered 202 is carried through even
// if the process dies in between, or loses its shard; until a request is verified the state of
// its subscription stands unchanged (WebSub §5.1); of several requests for
// one topic and callback only the last counts; no lease is perpetual.
//
// Before a callback is asked the first time, the start of its subscription is stored with the
// request (Store.KeepStart), and a request that replaces it inherits the start: a subscriber
// that answered a challenge gets all that is published from then on, whichever of its requests
// is settled in the end, and by which process. A callback is asked about one request at a
// time; a replacement waits for the answer, and is settled by it if it asks for the same.
//
// A subscription that is active can also be denied (Deny), when its topic left
// the hub; its callback is told then, too.
//
// # Several processes on one store
//
// Everything about an ID is done by the process that owns its shard; the others
// take requests and leave them in the store.
//
//	any process:  Submit ── durable (202) ── shard is ours? ── yes ──▶ worked on
//	                                              └── no ──▶ left to its owner
//	its owner:    Requested (told by the store), Refresh (looks again), Gained
//	              (found in the store) ─────────────────────────▶ worked on
//	              Lost ──▶ forgotten here; the next owner begins anew
//
// So a callback may be asked once more where a shard changes hands in the middle
// of a verification. A former owner that comes late, as it did not know of its
// loss, may still settle a request: the store sees to it that a request is settled
// once, and who finds it settled, or replaced, looks at what holds and tells
// delivery. A denial that waits to be told is known to one process alone and
// lost with it, or with the shard; the subscription has ended by then.
//
// A host that hangs holds a few places and no more (Config.PerHost), and a
// request that waits for anything has no goroutine. Trouble with the store stops
// nothing: every change is repeated until the store takes it, and what was
// verified is not asked again. Delivery hears of changes in the order in which
// they were stored, also of those that were stored by a call that seemed to fail.
//
// What it does not: it speaks no HTTP. The topic check and the verification of
// intent are interfaces that package hub implements, storage is the Store
// interface that the engines implement. Package hub submits requests, package
// delivery is told of what became active and what ended, cmd/hub passes on which
// shards are gained and lost and what is heard of other processes.
package subscription
