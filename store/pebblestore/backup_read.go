package pebblestore

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of what is to be a backup.
var (
	ErrNoBackup      = errors.New("it is not a backup of a hub")
	ErrBackupCutOff  = errors.New("the backup is cut off")
	ErrBackupDamaged = errors.New("the backup is damaged")
)

// VerifyBackup reads a backup to its end and checks it. The errors are those of a
// read, ErrNoBackup, ErrBackupCutOff, ErrBackupDamaged and ErrNewer.
func VerifyBackup(ctx context.Context, from io.Reader) (BackupInfo, error) {
	return readBackup(ctx, from, discard{})
}

// taker takes what is in a backup. Nothing is certain before the end.
type taker interface {
	begin(BackupInfo) error
	file(name string, size int64, content io.Reader) error
}

type discard struct{}

func (discard) begin(BackupInfo) error { return nil }

func (discard) file(_ string, _ int64, content io.Reader) error {
	_, err := io.Copy(io.Discard, content)
	return err
}

// readBackup gives the entries of a backup to t, the last one excepted, and checks
// them all.
func readBackup(ctx context.Context, from io.Reader, t taker) (BackupInfo, error) {
	stream := bufio.NewReader(&contextReader{ctx, from})
	peeked, _ := stream.Peek(len(backupHead)) // an error comes again with the first entry
	start := string(peeked)
	in := &backupInput{tar: tar.NewReader(stream), seen: make(map[string]bool)}
	err := in.read(t)
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case ended && len(start) == 0:
		err = fmt.Errorf("%w: it is empty", ErrNoBackup)
	case ended && !strings.HasPrefix(backupHead, start):
		err = ErrNoBackup
	case ended:
		err = fmt.Errorf("%w: %d of %d files are there", ErrBackupCutOff, max(len(in.seen)-1, 0), in.info.Files)
	case errors.Is(err, tar.ErrHeader):
		err = fmt.Errorf(
			"%w: behind %d of %d files is something else", ErrBackupDamaged, max(len(in.seen)-1, 0), in.info.Files,
		)
	}
	if in.info.Format != backupFormat && errors.Is(err, ErrBackupDamaged) {
		err = ErrNoBackup
	}
	return in.info, err
}

// backupInput is a backup that is being read.
type backupInput struct {
	tar  *tar.Reader
	info BackupInfo
	left int64 // bytes of files that may come
	seen map[string]bool
	sums bytes.Buffer // as backup.sha256 must be
}

func (in *backupInput) read(t taker) error {
	if err := in.begin(t); err != nil {
		return err
	}
	for {
		entry, err := in.next()
		if err != nil {
			return err
		}
		if entry.Name == backupSums {
			return in.end(entry)
		}
		switch {
		case !ofBackup(entry.Name):
			return fmt.Errorf("%w: it has a file named %q", ErrBackupDamaged, entry.Name)
		case in.seen[entry.Name] || len(in.seen) > min(in.info.Files, maxBackupFiles) || entry.Size > in.left:
			return fmt.Errorf("%w: it has more than it says", ErrBackupDamaged)
		}
		in.left -= entry.Size
		if err := in.summed(entry.Name, func(content io.Reader) error {
			return t.file(entry.Name, entry.Size, content)
		}); err != nil {
			return err
		}
	}
}

// next is the next entry, which is a file and nothing else.
func (in *backupInput) next() (*tar.Header, error) {
	entry, err := in.tar.Next()
	if err != nil {
		return nil, err
	}
	if entry.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%w: %q is no regular file", ErrBackupDamaged, entry.Name)
	}
	for key := range entry.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse") {
			return nil, fmt.Errorf("%w: %q has holes", ErrBackupDamaged, entry.Name)
		}
	}
	return entry, nil
}

// begin reads the first entry.
func (in *backupInput) begin(t taker) error {
	entry, err := in.next()
	if errors.Is(err, tar.ErrHeader) || err == nil && (entry.Name != backupHead || entry.Size > maxBackupHead) {
		return ErrNoBackup
	}
	if err != nil {
		return err
	}
	var head bytes.Buffer
	if err := in.summed(backupHead, func(content io.Reader) error {
		_, err := head.ReadFrom(content)
		return err
	}); err != nil {
		return err
	}
	var info BackupInfo
	if err := json.Unmarshal(head.Bytes(), &info); err != nil || info.Format != backupFormat || info.Bytes < 0 {
		return ErrNoBackup
	}
	if info.Version > backupVersion || info.Layout > hubLayout().version {
		return fmt.Errorf("%w: %s", ErrNewer, info.Program)
	}
	in.info, in.left = info, info.Bytes
	return t.begin(info)
}

// summed records the sum of an entry that read reads.
func (in *backupInput) summed(name string, read func(content io.Reader) error) error {
	sum := sha256.New()
	if err := read(io.TeeReader(in.tar, sum)); err != nil {
		return err
	}
	in.seen[name] = true
	_, err := fmt.Fprintf(&in.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	return err
}

// end compares the sums.
func (in *backupInput) end(entry *tar.Header) error {
	if entry.Size > maxBackupSums {
		return fmt.Errorf("%w: the list of sums is too long", ErrBackupDamaged)
	}
	want, err := io.ReadAll(in.tar)
	if err != nil {
		return err
	}
	if len(in.seen)-1 != in.info.Files || in.left != 0 {
		return fmt.Errorf("%w: %d of %d files are there", ErrBackupDamaged, len(in.seen)-1, in.info.Files)
	}
	is, should := strings.Split(in.sums.String(), "\n"), strings.Split(string(want), "\n")
	for i, line := range is {
		if i >= len(should) || line != should[i] {
			_, name, _ := strings.Cut(line, "  ")
			return fmt.Errorf("%w: the sum of %q is not what it was", ErrBackupDamaged, name)
		}
	}
	if len(is) != len(should) {
		return fmt.Errorf("%w: there are more sums than files", ErrBackupDamaged)
	}
	switch _, err := in.tar.Next(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: something comes behind its end", ErrBackupDamaged)
}

// contextReader ends with its context.
type contextReader struct {
	ctx  context.Context // of one readBackup
	from io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
