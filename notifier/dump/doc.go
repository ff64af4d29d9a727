// Package dump makes the Resource Dumps and Change Dumps of a notifier's sets (core §11, §13):
// packages of the content of resources, as ZIP files with a manifest each.
//
//	                                  ┌─ due, or asked for ──▶ snapshot of the journal ─┐
//	Resource Dump: one generation ────┤                                                 ├─▶ plan (a file)
//	Change Dump: a generation for each┴─ Change List closed ──▶ its events ─────────────┘       │
//	                                                                                            ▼
//	   serving ◀── rename ◀── generation.json ◀── 1.zip, 2.zip, … ◀── content: file or GET, verified,
//	      │                                        (each finished    hashed, packed, several at a time
//	      ▼                                         for good)
//	   410 when dropped
//
// # Guarantees
//
// A generation is served when all its packages are durable, and never changes. After a kill an
// unfinished generation goes on: the plan and the finished packages stay, everything else is removed.
// Every manifest is true of its package: hash and length are those of the packed content, also where a
// resource has changed since the snapshot. Content from a server must match the set, then or now.
// Missing content is left out, logged and counted; a dump that would lack more than half is not
// announced. A package has at most Config.PackageBytes, unless it has one member only. Memory does not
// grow with packages, content or sets: content over 256 KB goes through a file.
//
// # Limits
//
// It has no content of the past. A Change Dump has each resource's content at the time of packing,
// soon after its list was closed. It makes no Indexes: a Resource Dump that needs more than 50,000
// packages is refused, and the Change Dump drops its oldest parts.
//
// In a set that is archived (notifier.Archivable) a Resource Dump now and then, and each generation of
// changes, stay at addresses of their own: the same files, by hard links.
//
// cmd/notifier connects it: package notifier has the addresses and the journal, package directory is
// the Source of watched sets.
package dump
