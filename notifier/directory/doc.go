// Package directory makes a set of resources of a directory: each regular file is a resource, and the
// changes of the files become events of the set.
//
//	fsnotify ──▶ pending ── size and time rest ──▶ examine ── differs ──▶ announce
//	                ▲                                 ▲    from the state     │
//	                │ not at rest                     │                       ▼
//	scan ───────────┴── a file differs, or is gone ───┘            Sink.Append (durable)
//	  ▲
//	  └── at the start, every Config.Rescan, and where events of the file system were lost
//
// # Guarantees
//
// A Settle after the directory rests, the sum of the set's events (notifier.Resources) is the content
// of the directory, also after changes while the program did not run. A file is announced with the
// size, time, type and sha-256 of one state of it: nothing changed while it was read. Events of one
// file are in order. A file at rest takes no memory, and no file is held open; watched directories
// cost some hundreds of bytes each.
//
// # Files that are no resources
//
// These are no resources: files and directories whose name begins with a dot (so that a program can
// write there and rename at the end), symbolic links, sockets, devices and other special files, and a
// file whose URI would have more than 2,047 characters. A symbolic link is not followed, also not
// within the directory. A renamed file is deleted and created. A file that is written to without a
// pause is announced when it rests.
//
// A resource's URI is Config.Base and the names of the path. Each name is percent-encoded byte by
// byte, except for the characters that a URI may have; so names that are not UTF-8 have one, too.
//
// # Files that are not announced as deleted
//
// A file that cannot be read is not announced as deleted, nor are the files below a directory that
// cannot be read. If all of the set is missing from the directory and no event of the system reported
// a removal, the disk may not be mounted. Then nothing at all is announced until the files are back,
// or the operator puts a file named ReplaceMarker there. The same holds below a directory with a file
// system of its own that is not mounted any more, for as long as the process remembers that it was.
//
// The package knows no store and serves no documents: cmd/notifier gives it a notifier.Notifier to
// append to and the notifier's Store to ask. Files serves the files themselves.
package directory
