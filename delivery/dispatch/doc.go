// Package dispatch brings publications to their subscribers: in order for each subscription, with
// nothing lost. It works on the logs and cursors of package delivery, and on any engine that
// implements them.
//
// # A log and cursors
//
// A topic has a log: accepted notifications in order, each with a sequence number. Publishing appends
// one record, whatever the number of subscribers. Numbers rise, and a notification names the one
// before it (Notification.After). A subscription has a cursor: the sequence number up to which it is
// settled. Settled means delivered, or given up and recorded as a gap. A subscription whose cursor is
// behind the head of its topic's log has work; nothing is written to say so.
//
//	publish ──▶ Log.Append (durable) ──▶ head moves ──▶ Dispatcher wakes the topic
//	another process publishes ──▶ Published ─▲
//	something may have been missed ──▶ Refresh, Log.Heads ─▲
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
// No attempt starts, and all wait as ready, in three cases: positions cannot be saved, the log cannot
// be read, or another process may own the shards (see below).
//
// Attempts under way (Config.MaxInFlight, MaxPerHost, MaxSlow) and the bodies that they hold
// (MaxBytes) are bounded. An entry that waits for either is ready and holds nothing.
//
// Guarantees: deliveries of one subscription are made one at a time and in the order of the log. A
// notification is passed over only if a gap records it. A callback that was backing off before a
// restart still backs off after it.
//
// Deliveries are at least once. After a crash the deliveries in flight come again, and those settled
// since the last batch was written. That batch holds what one Config.FlushInterval and the time of
// writing have brought, never more than Config.FlushCount and the attempts in flight. A lost or late
// answer, or an attempt broken off at the end of Run, also means a second delivery. It has the same
// X-Hub-Notification-Id, by which the subscriber can drop it.
//
// # Shards
//
// Subscriptions are in shards, by their ID. A process delivers to those in the shards that it owns.
// Several may share an engine. The states of a shard:
//
//	          Gained                members read
//	not held ───────▶ loading ─────────────────────▶ held ── fenced by Save ──▶ not held
//	   ▲                 │ Lost, or Gained fails       │ Lost
//	   ├◀────────────────┘                             ▼
//	   └◀── what is unsaved is saved ◀── landed ◀── leaving: no attempt starts,
//	        under the old epoch         or time up           those under way end
//
// A process attempts nothing after the time up to which it is sure of its shards (Config.Surety). One
// that was stopped and comes back cannot write: its Save is refused under the old epoch. Its attempts
// in flight may come twice, as may those that a handover did not wait for (Config.HandoverTimeout). No
// notification is passed over, and no cursor moves back. An answer that comes after its shard was lost
// changes nothing, also where the shard was gained again meanwhile: a tenure is known by its table,
// not by the shard's number. In the process that made such an attempt the next one to the same
// subscription waits for its end; another process cannot.
//
// # What a log has lost
//
// A notification is removed from its log when no subscription needs it and it is older than
// Config.KeepAtLeast. Processes that share an engine exchange their needs by Marks. A notification is
// removed although a subscription needs it in two cases. It is older than Config.KeepFor; or all logs
// together take more than Config.KeepBytes and its log is among the largest, of one of the largest
// sites. The subscription then has a gap, recorded when the notification is to be read and is not in
// memory either. Other losses are gaps of every subscription that lacks the notification: a record
// that cannot be read, or the end of a log, where the engine came back without the last of its
// acknowledged records. That is logged as an error and counted, once for each topic. Later
// publications have higher numbers than the lost ones, and reach every subscription.
//
// # What an operator sees and repairs
//
// Each, Standing, Tally and Undelivered report the state of subscriptions and notifications, over the
// shards that this process has read. Attempts, Totals and TopicCounts report recent events. They go
// through the table in stretches, so that deliveries do not wait for them. RetryNow makes an attempt
// before its time, and Replay delivers a stretch of the log once more.
//
// # Parts and their locks
//
// Each part owns its data and is used by those above it only:
//
//	Dispatcher        New, Run, Stats; Reports come from package report
//	publisher, heads  what is appended here and elsewhere
//	holder, repairs   shards that come and go; what operators want for one subscription
//	saver             positions, many in one Save
//	attempts, reader  attempts and what came of them; notifications read once for all
//	schedule          who is next: hosts in turn, retries by time, who waits for room
//	flights, ledger   attempts under way; unsaved outcomes
//	bodies            notifications in memory, and what attempts hold of them
//	table, asks       shards, topics, hosts, subscriptions; heads that are to be read
//
// table.mu guards the table, bodies, flights, ledger and schedule, because the start of an attempt
// depends on all of them at once (docs/decisions/0055-parts-of-the-dispatcher.md). Everything else has
// its own mutex. They are taken in this order. Only those of the first line are held over a call to the
// engine:
//
//	saver.saving, retain's marking   one Save, one Mark at a time; waited for with a bound
//	subscription.Surety              held by Sure while it calls its watchers; asking takes no lock
//	table.mu                         held for a stretch of the table, never while waiting
//	asks.mu                          below it
//
// report.History, report.Published and each trouble have a mutex that is taken alone or below
// table.mu, and takes no other.
//
// The package keeps no list of jobs, does not judge content, and opens connections only through the
// send.Sender it is given. Package hub publishes through it, package subscription reports the
// subscriptions, cmd/hub reads its state.
package dispatch
