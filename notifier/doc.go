// Package notifier is the Source side of a change notification channel: it takes events, keeps them in
// a journal, and publishes them to a hub as consecutive ResourceSync change notifications (CN §2 to
// §5).
//
//	POST events ──▶ Intake ──▶ Journal.Append (durable, dated) ── 202
//	NDJSON lines ─▶ ReadLines ─┘        │
//	                                    ▼  for each set of resources:
//	        ┌──▶ open ── first event ──▶ filling ── count, bytes or time ──▶ closed
//	        │                                                                 │ Journal.Seal (durable)
//	        │                                                                 ▼
//	        └── Journal.Accept ◀── 2xx ── POST to the hub ◀── again, with ── sealed
//	                                                          backoff, for ever
//
// # Guarantees
//
// An accepted event is in exactly one notification of each of its sets. Notifications of a set are
// sent in order, one at a time, and cover consecutive intervals: from is the previous until; from <=
// datetime < until; until is never in the future. A notification is stored before it is sent and never
// changes, so that every retry sends the same bytes. One set's trouble with the hub never holds up
// another set.
//
// Change Lists (core §12) are made of the same events when they are asked for. Each set has one open
// list, which has an event as soon as it is durable, whatever the hub answers to it. It is closed by
// count, size or time, just behind an event, and the next begins there; from then on its document
// stays the same at its address, until Config.Keep is over. A client that reads the lists one after
// another misses no event and has none twice.
//
// Archives (the ResourceSync Archives specification) keep closed Change Lists, and Resource Lists now
// and then, as files at lasting addresses. No event goes from the journal before its Change List is in
// the archive of its set, if that has one.
//
// The package makes no dumps (package dump does, as a Companion) and sends no empty notifications. An
// event whose request got no answer, or a 5xx, may be in the journal or not.
//
// # Size of the journal
//
// The journal keeps unpublished events as long as needed, and events of Change Lists for Config.Keep
// after their list was closed, with their datetimes. It keeps the bytes of the outstanding
// notification and of the last accepted one. So a journal grows with the events of Config.Keep, about
// 100 to 300 bytes for each event and set before compression, and with the backlog while the hub is
// away; not with the number of notifications.
//
// # Clocks
//
// If the clock is set back, intake goes on, with datetimes that still rise, and publishing waits until
// the clock has caught up: until is never in the future. A log line and the metric
// clock_behind_seconds report that. A clock that is set forward is believed after an hour (package
// wallclock): until then the time before dates events, and closes and drops lists. A log line and
// clock_doubted_seconds report that.
//
// The journal is an interface that the engines implement; package journaltest is its conformance
// suite. cmd/notifier connects an engine, the two listeners (Public and Intake) and Run.
package notifier
