// Package pebblestore keeps everything that a hub must not lose in one directory, with the embedded
// engine Pebble: the subscriptions and their requests, the topics' logs, the cursors, the pings, the
// Sources. It is the hub's default engine; only programs and tests import it.
//
// # Guarantees
//
// A change is durable when its method returns nil: the record is in Pebble's write-ahead log and the
// log is synced. Changes that run at the same time share a sync. Records reach the write-ahead log in
// the order in which readers see them, so that a crash leaves a beginning of the history, never a
// later change without an earlier one. A reader may see a change a moment before it is durable;
// everything that the reader writes then is durable only together with it.
//
// One process at a time has the directory (ErrInUse). That process owns every shard; a shard's epoch
// rises each time that it is taken. Cursors never move back.
//
// The sequence numbers that Append gives follow each other without a hole: logs and cursors are in one
// directory, and neither loses its end without the other. A log that came from another engine
// (Restore) keeps its holes, and goes on above its head; a restored backup leaves one hole in each.
//
// Times are kept to the nanosecond and come back in UTC.
//
// A directory of another layout is not opened: ErrNewer, or ErrOlder for one of a version that was
// never released.
//
// # When the disk fails
//
// Less than Config.MinFree left on the disk: changes that grow the store (Append, Submit, Ping,
// Restore) return ErrUnavailable; those that make room, and the cursors, go on.
//
// The disk is full all the same (ENOSPC): writes under way wait for room, looking once a second, and
// new ones return ErrUnavailable at once. When there is room they go on by themselves. Close ends the
// wait.
//
// A write to the write-ahead log or the manifest fails for any other reason: Pebble can then not be
// trusted to write again until it is opened anew. So Config.Fatal is called, which by default logs one
// line and ends the process with status 1. No acknowledged data is lost by it.
//
// A record may be unreadable, by itself or because its block of a file is bad. It is logged once with
// its kind and left out where records are listed. Its kind decides what follows:
//
//   - A notification is passed over like a trimmed one.
//   - A subscription counts as missing, and a new one may take its place.
//   - A request is settled as if it were the one to be settled.
//   - A topic without its state takes no publications and has no head (ErrDamaged).
//   - Without a count that must never return the store does not open.
//
// New records that belong where a bad block is are kept and found, but not listed. Pebble cannot
// compact a table with a bad block, so that its space and the time of reads grow: a store with damage
// goes on, but should be replaced.
//
// # Damage to the directory
//
// With missing, cut or changed files Pebble could begin anew or from an earlier state, and delete the
// rest. So the store checks the files before it opens them: Open is ErrDamaged then, and has deleted
// nothing. A torn end of the newest write-ahead log, as a crash leaves it, is no damage: it was not
// acknowledged. After a crash an end that was cut off, or changed, by something else looks the same.
//
// # Backups
//
// Backup holds a state, with everything acknowledged before, and the store goes on; RestoreBackup
// makes a store of the written backup. The numbers of a restored store begin above all that can have
// been given since the backup was made.
//
// # Limits
//
// It repairs nothing, and cannot share a directory between processes: for that there is another
// engine.
package pebblestore
