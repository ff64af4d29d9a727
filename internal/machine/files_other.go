//go:build !unix

package machine

import "io/fs"

// OpenFiles returns how many files the process may have open: here no limit is
// known.
func OpenFiles() int { return 1 << 30 }

// OwnFilesOnly has nothing to do: a directory's access list says who may read what is
// made in it.
func OwnFilesOnly() {}

// writable has nothing to say: the first file that is made will tell.
func writable(string) error { return nil }

// otherOwner: owners are no numbers here.
func otherOwner(fs.FileInfo) (owner uint32, other bool) { return 0, false }

// RefuseRoot never refuses here.
func RefuseRoot(string) error { return nil }
