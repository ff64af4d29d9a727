//go:build !unix

package directory

import "io/fs"

const openNonblock = 0

// deviceOf: file systems are not distinguished here.
func deviceOf(fs.FileInfo) uint64 { return 0 }
