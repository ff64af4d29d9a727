// Package hub is the WebSub face of the hub: one endpoint over HTTP, and the requests that the hub
// itself makes to topics and to callbacks.
//
// # What a request means
//
//	GET, HEAD ──────────────────────────────────────▶ 200 the page for people
//	POST, by Content-Type
//	  a form ── hub.mode ┬─ subscribe, unsubscribe ──▶ 202 Submit is durable
//	                     └─ publish (a ping) ────────▶ 204 the pings are durable
//	                                                     │
//	                                      fetch the topic, judge it, publish
//	  anything else: a content publish                   │
//	    Link ─▶ topic check ─▶ body ─▶ format ─▶ publish ┴──▶ 200 durable
//
// # Who does what
//
// Hub answers requests (Handler), in whichever process of a store they reach. It runs the loops (Run):
// the fetches of pings, the watch over the topics that have subscribers, and the renewal of topic
// checks. It fetches the topics whose shard belongs to this process (Gained, Lost).
//
//	ping ──▶ recorded (204) ── topic's shard is ours? ── yes ──▶ fetched here
//	                              └── no ──▶ its owner hears of it by the store, or
//	                                         finds it: Pinged, Refresh, Gained
//
// Checker asks topics whether they name this hub; it is the subscription.Validator. Verifier asks
// callbacks whether they meant it; it is the subscription.Confirmer. Checker and Verifier are made
// first, subscription.Service with them, and Hub over all of them.
//
// # Guarantees
//
// A success is answered only once its promise is durable. The answer to a subscription request never
// depends on the topic or the callback (WebSub §5.1.2). A body is read only after every check that
// could refuse the request without it. An error names the parameter and the rule it broke, and nothing
// of the hub's inside. A ping that was answered 204 is fetched even if the process dies in between,
// then perhaps twice. No request that the hub makes is redirected, decompressed, or read beyond a
// limit.
//
// With Parts.Sources a publication or ping needs the token of a Source that covers the topic. Before
// that proof the hub neither reads the body of a publication nor asks a topic. Without Parts.Sources
// it does not authenticate Sources: any client may publish to a topic that names this hub.
//
// The package opens connections only through the transport it is given, which must refuse forbidden
// addresses (internal/egress). It keeps nothing that must survive a restart.
package hub
