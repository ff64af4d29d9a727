// Package republish makes an aggregator of a mirror (core 14.8): it hands each change of a mirror's
// copies to the intake of a notifier, under the aggregator's own addresses.
//
//	mirror ── Catalog.Save ──┬─▶ copy
//	            one step     └─▶ waiting ── Next ──▶ sealed ── POST ──▶ 202 ── Settle ──▶ handed over
//	                               ▲                   │ ▲                        │
//	                               │                   └─┘ again, the same        └─▶ refused: set aside
//	                     a later version of the copy
//
// # Guarantees
//
// The Outbox records a change in the same step as the copy, so that no crash separates them. A batch
// is sealed before it is sent and is the same each time, so that a repetition has the same content.
// Changes of one copy are handed over in order, one batch at a time. Each change is created, updated
// or deleted as seen from the intake's set. A copy that changes several times while it waits is handed
// over once, in its last state. A change that the intake refuses by itself is logged, counted and set
// aside, and holds up no other.
//
// # Content of a change
//
// The address is the base and the path of the copy. Hash, length and lastmod are those of the file. A
// link with rel="via" leads to the origin: the Source's own via link, else one to the Source's
// resource. Other links are those that mirror.KeptLinks keeps.
//
// The package serves no files. A copy that is kept although its Source has deleted it (mirror.Gone)
// stays published, since it is still there. With mirror.Config.Delete it is deleted.
package republish
