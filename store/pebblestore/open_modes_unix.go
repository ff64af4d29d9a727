//go:build unix

package pebblestore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

const forOthers fs.FileMode = 0o077

// closeToOthers takes the permissions of other users on the files in the directory: the files hold
// secrets. The directory itself keeps its owner's permissions. In another user's directory nothing is
// changed: that user decides where its names lead.
func closeToOthers(dir string, logger *slog.Logger) {
	info, err := os.Stat(dir)
	if err != nil {
		return // it is there, or opening the store will fail
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && int64(owner.Uid) != int64(os.Geteuid()) {
		logger.Warn("the store directory belongs to another user, who can read the secrets in it: chown it to the user of this process, with all files in it",
			"directory", dir, "owner", owner.Uid)
		return
	}
	entries, err := os.ReadDir(dir)
	closed := 0
	for _, entry := range entries {
		info, gone := entry.Info()
		if gone != nil || !info.Mode().IsRegular() || info.Mode()&forOthers == 0 {
			continue
		}
		failed := os.Chmod(filepath.Join(dir, entry.Name()), info.Mode().Perm()&^forOthers)
		err = errors.Join(err, failed)
		if failed == nil {
			closed++
		}
	}
	if err != nil {
		logger.Warn(
			"files of the store may be open to other users, and hold secrets: chmod 700 the directory",
			"directory", dir, "error", err,
		)
	}
	if closed > 0 && info.Mode()&forOthers != 0 {
		logger.Warn("other users could read files of the store, which hold secrets; they no longer can. Rotate what they must not know",
			"directory", dir, "files", closed)
	}
}
