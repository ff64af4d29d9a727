// Package directory makes a set of resources of a directory: each regular file is a
// resource, and what becomes of the files becomes events of the set.
//
//	fsnotify ──▶ pending ── size and time rest ──▶ examine ── differs ──▶ announce
//	                ▲                                 ▲    from the state     │
//	                │ not at rest                     │                       ▼
//	scan ───────────┴── a file differs, or is gone ───┘            Sink.Append (durable)
//	  ▲
//	  └── at the start, every Config.Rescan, and where events of the file system were lost
//
// What it guarantees: what the events of the set add up to (notifier.Resources) is, a
// Settle after the directory rests, what the directory has; whatever happened while nobody
// watched. A file is announced with the size, time, type and sha-256 of one state of it:
// nothing that changed while it was read. Events of one file are in order. Nothing is kept
// in memory for a file that is at rest, and no file is held open; directories that are
// watched cost some hundreds of bytes each.
//
// What is no resource: files and directories whose name begins with a dot (so that a
// program can write there and rename at the end), symbolic links, sockets, devices and
// whatever else is no regular file, and a file whose URI would have more than 2,047
// characters. A symbolic link is not followed, also not within the directory. A file that
// is renamed is deleted and created. A file that is written to without a pause is
// announced when it rests.
//
// A resource's URI is Config.Base and the names of the path, each percent-encoded byte by
// byte but for what a URI may have as it is; so names that are not UTF-8 have one, too.
//
// What is not announced as deleted: a file that is there and cannot be read, and all
// below a directory that cannot be; all that the set has, where none of it is in the
// directory any more and no system told of its removal, as with a disk that is not mounted: then nothing at all is
// announced until it is back, or somebody puts a file named ReplaceMarker there; and
// what was below a directory with a file system of its own that is not mounted any
// more, for as long as the process remembers that it was.
//
// It knows no store and serves no documents: cmd/notifier gives it a notifier.Notifier to
// append to and the notifier's Store to ask. Files serves the files themselves.
package directory
