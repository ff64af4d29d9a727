// Package delivery brings what was published to those who subscribed: in
// order for each subscription, with nothing lost.
//
// # A log and cursors
//
// A topic has a log: accepted notifications in order, each with a sequence
// number. Publishing appends one record, whatever the number of subscribers. A
// subscription has a cursor: the sequence number up to which it is settled,
// that is delivered, or given up and recorded as a gap. A subscription whose
// cursor is behind the head of its topic's log has work; nothing is written
// to say so.
//
//	publish ──▶ Log.Append (durable) ──▶ head moves ──▶ Dispatcher wakes the topic
//
//	           idle ◀───────────── cursor = head ◀────────────┐
//	            │ head moves                                  │
//	            ▼                                             │
//	          ready ── its host's turn ──▶ in flight ── 2xx ──┴▶ more: ready
//	            ▲                             │
//	            └────── backoff is over ◀── waiting (failed)
//	                                          │ 410: the subscription ends
//	                                          │ too old: gap recorded, cursor moves
//
// What it guarantees: deliveries of one subscription are one at a time and in
// the order of the log; a notification is passed over only if a gap says so; a
// callback that was backing off before a restart is still backing off after it.
//
// Deliveries are at least once. After a crash those come again that were in
// flight, and those settled since the last batch was written: one
// Config.FlushInterval plus the time that writing takes, never more than
// Config.FlushCount and what was in flight. An answer which comes late or is
// lost, or an attempt broken off at the end of Run, also means a second
// delivery, with the same X-Hub-Notification-Id to drop it by.
//
// What it does not: it keeps no list of jobs, it does not judge content, and it
// dials nobody but through the Sender it is given. Package hub publishes
// through it, package subscription tells it who subscribes, cmd/hub reads its
// state; engines implement Log, Pings, Cursors and Shards.
package delivery
