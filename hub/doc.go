// Package hub is the WebSub face of the hub: one endpoint over HTTP, and the
// requests that the hub itself makes to topics and to callbacks.
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
// Hub answers requests (Handler), whichever process that shares the store they
// reach, and runs the loops (Run): the fetches that pings asked for, the watch
// over the topics that have subscribers, and the renewal of topic checks. It
// fetches the topics whose shard is this process's (Gained, Lost).
//
//	ping ──▶ noted (204) ── topic's shard is ours? ── yes ──▶ fetched here
//	                              └── no ──▶ its owner is told by the store, or
//	                                         finds it: Pinged, Refresh, Gained
//
// Checker asks topics whether they name this hub; it is the
// subscription.Validator. Verifier asks callbacks whether they meant it; it is the
// subscription.Confirmer. Checker and Verifier are made first,
// subscription.Service with them, and Hub over all of them.
//
// What it guarantees: no success is answered before what it promises is
// durable; the answer to a subscription request never depends on the topic or
// the callback (WebSub §5.1.2); a body is read only after everything that could
// refuse the request without it; an error says which parameter broke which
// rule, and nothing of the hub's inside; a ping that was answered 204 is
// fetched even if the process dies in between, then perhaps twice; where there are
// Parts.Sources, nothing is published and no ping is taken from who has not the token of a
// Source that the topic is one of, and neither the body of a publication is read nor a topic
// asked before that; no request
// that the hub makes is redirected, decompressed, or read beyond a limit.
//
// What it does not: it dials nobody but through the transport it is given, which
// must refuse the addresses that may not be reached (internal/egress); it keeps
// nothing that must survive a restart; without Parts.Sources it does not authenticate
// Sources: whoever names a topic that names this hub may publish to it.
package hub
