//go:build !unix

package program

// OpenFiles returns how many files the process may have open: here no limit is
// known.
func OpenFiles() int { return 1 << 30 }

// ownFilesOnly has nothing to do: a directory's access list says who may read what is
// made in it.
func ownFilesOnly() {}
