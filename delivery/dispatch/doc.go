// Package dispatch brings what was published to those who subscribed: in
// order for each subscription, with nothing lost. It works on the logs and cursors of
// package delivery, and on any engine that implements them.
//
// # A log and cursors
//
// A topic has a log: accepted notifications in order, each with a sequence
// number. Publishing appends one record, whatever the number of subscribers. Numbers
// rise, and a notification reports what came before it (Notification.After). A
// subscription has a cursor: the sequence number up to which it is settled,
// that is delivered, or given up and recorded as a gap. A subscription whose
// cursor is behind the head of its topic's log has work; nothing is written
// to say so.
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
// No attempt takes off, and all wait as ready, while positions cannot be saved,
// the log cannot be read, or another process may own the shards (see below).
//
// Bounded are the attempts under way (Config.MaxInFlight, MaxPerHost, MaxSlow) and the
// bodies that they hold (MaxBytes). Who waits for either is ready and holds nothing.
//
// What it guarantees: deliveries of one subscription are one at a time and in
// the order of the log; a notification is passed over only if a gap says so; a
// callback that was backing off before a restart is still backing off after it.
//
// Deliveries are at least once. After a crash those come again that were in
// flight, and those settled since the last batch was written: what one
// Config.FlushInterval and the time that writing takes have brought, never more
// than Config.FlushCount and what was in flight. An answer which comes late or is
// lost, or an attempt broken off at the end of Run, also means a second
// delivery, with the same X-Hub-Notification-Id to drop it by.
//
// # Shards
//
// Subscriptions are in shards, by their ID. A process delivers to those in the
// shards that it owns. Several may share an engine; what is told of a shard:
//
//	          Gained                members read
//	not held ───────▶ loading ─────────────────────▶ held ── fenced by Save ──▶ not held
//	   ▲                 │ Lost, or Gained fails       │ Lost
//	   ├◀────────────────┘                             ▼
//	   └◀── what is unsaved is saved ◀── landed ◀── leaving: no attempt starts,
//	        under the old epoch         or time up           those under way end
//
// A process attempts nothing after the time up to which it is sure of its shards
// (Config.Surety). One that was stopped and comes back cannot write: its Save is refused
// under the old epoch. What it had in flight may come twice, as may what was not
// waited for when a shard is handed over (Config.HandoverTimeout); nothing is
// passed over, and no cursor moves back. An answer that comes after its shard was
// lost changes nothing, also where the shard was gained again meanwhile: a tenure is
// told by its table, not by the shard's number. In the process that made such an attempt
// the next one to the same subscription waits for its end; another process cannot.
//
// # What a log has lost
//
// A notification is removed from its log when no subscription needs it and it is
// older than Config.KeepAtLeast; where processes share an engine they tell each
// other by Marks what they need. It is removed though somebody needs it when it is
// older than Config.KeepFor, or all logs together take more than Config.KeepBytes
// and its log is one of those that take most, of a site that does. Who needs it has a gap, which is recorded
// when it is to be read and memory has it no more either. What is missing all the same is a gap of
// everyone who has not got it: a record that cannot be read, or the end of a log, where the
// engine came back without the last of what it had acknowledged. That is logged as
// an error and counted, once for each topic. What is published afterwards
// has higher numbers than what was lost, and reaches everyone.
//
// # What an operator sees and repairs
//
// Each, Standing, Tally and Undelivered tell how it stands with subscriptions and with
// notifications, over the shards that this process has read; Attempts, Totals and
// TopicCounts tell what happened of late. They go through the table in stretches, so that
// deliveries do not wait for who asks. RetryNow makes an attempt before its time, and
// Replay delivers a stretch of the log once more.
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
//	flights, ledger   attempts under way; what is not saved yet
//	bodies            notifications in memory, and what attempts hold of them
//	table, asks       shards, topics, hosts, subscriptions; heads that are to be read
//
// table.mu guards the table, bodies, flights, ledger and schedule, as whether an attempt
// starts depends on all of them at once (docs/decisions/0055-parts-of-the-dispatcher.md).
// Everything else has its own mutex. They are taken in this order, and none is held over a
// call to the engine but those of the first line:
//
//	saver.saving, retain's marking   one Save, one Mark at a time; waited for with a bound
//	subscription.Surety              held by Sure while it calls who watches; asking takes no lock
//	table.mu                         held for a stretch of the table, never while waiting
//	asks.mu                          below it
//
// report.History, report.Published and each trouble have a mutex that is taken alone or
// below table.mu, and takes no other.
//
// It keeps no list of jobs, it does not judge content, and it dials nobody but through
// the send.Sender it is given. Package hub publishes through it, package subscription
// reports who subscribes, cmd/hub reads its state.
package dispatch
