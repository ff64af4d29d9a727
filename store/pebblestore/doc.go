// Package pebblestore keeps everything that a hub must not lose in one
// directory, with the embedded engine Pebble: the subscriptions and their
// requests, the topics' logs, the cursors, the pings, the Sources. It is the engine that a hub
// uses when it is told of no other; only programs and tests import it.
//
// # What it guarantees
//
// A change is durable when its method returns nil: the record is in Pebble's
// write-ahead log and the log is synced. Changes that run at the same time share a
// sync. Records reach the write-ahead log in the order in which readers see
// them, so what survives a crash is always a beginning of what happened, never a
// later change without an earlier one. A reader may see a change a moment before it
// is durable; whatever that reader writes then is durable only together with it.
//
// One process at a time has the directory (ErrInUse). That process owns every
// shard; a shard's epoch rises each time that it is taken. Cursors never move back.
//
// The sequence numbers that Append gives follow each other without a hole: logs and
// cursors are in one directory, and neither loses its end without the other. A log
// that came from another engine (Restore) keeps its holes, and goes on above its head;
// a restored backup leaves one hole in each.
//
// Times are kept to the nanosecond and come back in UTC.
//
// A directory of another layout is not opened: ErrNewer, or ErrOlder for one of a version that
// was never released.
//
// # When the disk fails
//
// Less than Config.MinFree left on the disk: what would grow the store (Append,
// Submit, Ping, Restore) returns ErrUnavailable; what makes room, and the cursors, go on.
//
// The disk is full all the same (ENOSPC): writes under way wait for room, looking
// once a second, and new ones return ErrUnavailable at once. When there is room
// they go on by themselves. Close ends the wait.
//
// A write to the write-ahead log or the manifest fails for any other reason:
// Pebble can then not be trusted to write again until it is opened anew, so
// Config.Fatal is called, which by default logs one line and ends the process with
// status 1. Nothing that was acknowledged is lost by it.
//
// A record that cannot be read back, by itself or because the block of the file that
// it is in is bad, is logged once with its kind and left out where records are
// listed. In a topic's log it is passed over like one that was trimmed; a subscription
// counts as none, and whoever subscribes again begins anew; a request is settled
// as if it were the one to be settled; a topic whose state is lost takes nothing any
// more and does not tell its head (ErrDamaged). The store does not open when a count is lost that must never
// return. New records that belong where a bad block is are kept and found, but
// not listed. Pebble cannot compact a table with a bad block, so that its space and
// the time of reads grow: a store with damage goes on, but should be replaced.
//
// # Damage to the directory
//
// Files that are missing, cut short or changed, so that Pebble would begin anew or from
// an earlier state and delete the rest, are looked for before it opens them: Open is
// ErrDamaged then, and has deleted nothing. What a crash tears off the end of the
// newest write-ahead log is no damage: it was not acknowledged. After a crash an
// end that was cut off, or changed, by something else cannot be told from that.
//
// # Backups
//
// Backup holds a state, with everything acknowledged before, and the store goes
// on; RestoreBackup makes a store of what was written of it. The numbers of a restored
// store begin above all that can have been given since the backup was made.
//
// # What it does not
//
// It repairs nothing, and cannot share a directory between processes: for that there
// is another engine.
package pebblestore
