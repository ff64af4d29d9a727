// Package destination is the Destination's side of a change notification
// channel: it finds the hub of a topic, subscribes, confirms, renews, takes
// deliveries and hands them on, each once.
//
// # The life of a subscription
//
//	   ┌──────────── backoff ◀── no hub, no answer, not verified in time
//	   ▼                                  │
//	discover ── hub, self ──▶ request ── 202 ──▶ waiting for the hub's GET
//	   ▲                        │ 4xx: refused       │ challenge answered
//	   │                        ▼                    ▼
//	   │                    Run ends             subscribed, lease noted
//	   │                        ▲                    │
//	   │      hub.mode=denied ──┘                    │
//	   └────────── two thirds of the lease are over ─┘
//	                                                 │ Run's context ends
//	                                                 ▼
//	                           unsubscribed, or given up after StopWithin
//
// What it guarantees: a delivery is answered 2xx only when the Sink has taken it
// and the state that knows it again is on disk; what comes again under the same
// X-Hub-Notification-Id, or as the same bytes of a ResourceSync notification, is
// answered 2xx and not handed on; nothing is handed on
// whose signature is not by a secret of this subscription; a break in the chain
// of from and until (CN §3) is reported; a process that was killed carries on
// with the same subscription. If it was killed after the Sink took a
// notification and before its state was written, that notification, one at
// most, is handed on again.
//
// What it does not: it fetches no resources, and does not catch up on what was
// missed. Package hub is met over HTTP only. Command destination runs it.
//
// Where WebSub leaves the choice:
//
//   - A message whose signature is missing or wrong is ignored and answered
//     403 (WebSub §7.1.2 allows it): a 2xx would make the hub forget what we
//     did not take. The secret has 256 bits, so the answer helps nobody to guess it.
//   - A renewal keeps the callback and changes the secret. A new callback with each
//     renewal, as WebSub §5.1 suggests, would be a second subscription beside the
//     first, and everything would come twice until its lease is over.
//   - Of a topic's hubs (WebSub §4 has us subscribe at one or more) one has the
//     subscription, and renews it as long as it lasts and the topic names that
//     hub. When the topic has moved to another hub, the first is told to stop
//     once the other has verified.
//   - A verification is confirmed only while a request of ours is pending, and for
//     GraceAfter thereafter, for a hub that did not get our answer.
package destination
