package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// maxLooked bounds how many files of a directory are looked at.
const maxLooked = 10_000

// CheckDirectory is an error for a directory in which nothing can be kept: it cannot be
// written to, or not be made.
func CheckDirectory(dir string) error {
	where, info, err := nearestDirectory(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", where)
	}
	if err := writable(where); err != nil {
		return fmt.Errorf("%s cannot be written to: %w", where, err)
	}
	return nil
}

// nearestDirectory is the directory, or the one in which it would be made.
func nearestDirectory(dir string) (string, fs.FileInfo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	for {
		info, err := os.Stat(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, info, err
		}
		dir = filepath.Dir(dir)
	}
}

// ExposedDirectory reports the permissions of others on a directory that holds secrets, and on the
// files in it, each with a remedy. Permissions of a group were set on purpose, and do not count. It
// says nothing about files that cannot be seen.
func ExposedDirectory(flag, dir string) (warnings []string) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	if owner, other := otherOwner(info); other {
		warnings = append(
			warnings,
			fmt.Sprintf(
				"%s: the directory %s belongs to the user %d, who can do anything with what is in it: give it to the user of this process (chown)",
				flag, dir, owner,
			),
		)
	}
	if info.Mode().Perm()&othersMay != 0 {
		warnings = append(
			warnings,
			fmt.Sprintf(
				"%s: every user of this machine may change the directory %s (mode %04o): take that right away (chmod o-w)",
				flag, dir, info.Mode().Perm(),
			),
		)
	}
	if info.Mode().Perm()&othersEnter == 0 {
		return warnings // no other user reaches the files
	}
	if name := exposedIn(dir); name != "" {
		warnings = append(
			warnings,
			fmt.Sprintf(
				"%s: every user of this machine can read %s, and it may hold secrets: take that right away (chmod -R o-rwx %s)",
				flag, name, dir,
			),
		)
	}
	return warnings
}

// othersMay are the rights to a directory that a warning is due to: every user may write to it. A
// listing shows nothing secret, as the files have mode 0600.
const othersMay = 0o002

// othersEnter is the right of everybody to reach what is in a directory.
const othersEnter = 0o001

// exposedIn is a file of the directory that everybody may read.
func exposedIn(dir string) string {
	d, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close() // it was only read
	entries, _ := d.ReadDir(maxLooked)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if open, err := OpenToOthers(name); entry.Type().IsRegular() && err == nil && open {
			return name
		}
	}
	return ""
}

// ExposedSecret warns of a file with a secret that every user may read. "" is no file.
func ExposedSecret(flag, name string) (warnings []string) {
	if name == "" {
		return nil
	}
	if open, err := OpenToOthers(name); err == nil && open {
		return []string{
			fmt.Sprintf("%s: every user of this machine can read %s: take that right away (chmod o-r)", flag, name),
		}
	}
	return nil
}

// OpenToOthers reports whether every user of the machine may read the file.
func OpenToOthers(name string) (bool, error) {
	info, err := os.Stat(name)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0, err
}
