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
// if the process dies in between; until a request is verified the state of
// its subscription stands unchanged (WebSub §5.1); of several requests for
// one topic and callback only the last counts; no lease is perpetual.
//
// A subscription that is active can also be denied (Deny), when its topic left
// the hub; its callback is told then, too.
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
// delivery is told of what became active and what ended.
package subscription
