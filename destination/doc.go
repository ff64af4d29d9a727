// Package destination is the Destination's side of a change notification channel. It finds the hub
// of a topic, subscribes, confirms, renews, and hands each delivery on once.
//
// # The life of a subscription
//
//	   ┌────────── backoff ◀── no hub, no response, not verified in time
//	   ▼                                  │
//	discover ── hub, self ──▶ request ── 202 ──▶ waiting for the hub's GET
//	   ▲                        │ 4xx: refused       │ challenge confirmed
//	   │                        ▼                    ▼
//	   │                    Run ends             subscribed, lease stored
//	   │                        ▲                    │
//	   │      hub.mode=denied ──┘                    │
//	   └────────── two thirds of the lease are over ─┘
//	                                                 │ Run's context ends
//	                                                 ▼
//	                           unsubscribed, or given up after StopWithin
//
// Guarantees:
//
//   - A delivery gets 2xx only after the Sink has accepted it and its ID is on disk.
//   - A repeated X-Hub-Notification-Id, or a ResourceSync notification with the same bytes, gets
//     2xx and is not handed on again.
//   - Only deliveries with a signature by a secret of this subscription are handed on.
//   - A notification whose from is not the until of the one before (CN §3) is reported.
//   - A killed process goes on with the same subscription. At most one notification is handed on
//     twice: the one that the Sink accepted just before the kill.
//
// The package fetches no resources and does not catch up on missed changes. It uses hubs over HTTP
// only. Command destination runs it.
//
// Choices that WebSub leaves open:
//
//   - A delivery with a missing or wrong signature is ignored and gets 403, which WebSub §7.1.2
//     allows: after a 2xx the hub would drop a notification that was not accepted. As a secret has
//     256 random bits, the response does not help to guess it.
//   - A renewal keeps the callback and changes the secret. With a new callback, as WebSub §5.1
//     suggests, there would be two subscriptions, and every delivery would arrive twice.
//   - WebSub §4 allows subscribing at one or more of a topic's hubs. One hub has the subscription,
//     and keeps it while the topic names that hub. When the topic moves to another hub, the old
//     subscription ends after the new hub has verified.
//   - A verification is confirmed only while a request is pending, and for GraceAfter afterwards,
//     for a hub that did not get the first response.
package destination
