package api

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// TokenVariable is the environment variable that may have the operator's token. It is no flag: a
// command line can be seen by every user of the machine.
const TokenVariable = "HUB_ADMIN_TOKEN"

// Bounds of the operator's token, bytes.
const (
	minToken = 16  // less can be guessed
	maxToken = 512 // stops a file of another kind
)

// lookAtTokenEvery is how often it is looked whether the file has changed, at most.
const lookAtTokenEvery = 500 * time.Millisecond

// Token is the operator's token, from the environment or from a file that may change.
type Token struct {
	file   string // "": it is from the environment
	logger *slog.Logger

	mu      sync.Mutex
	current string      // guarded by mu, as all below
	info    fs.FileInfo // of the file, when it was read
	looked  time.Time
	problem string // why the file as it is now is not taken
	exposed bool   // every user of the machine may read the file
}

// FindToken reads the operator's token, given as the value of TokenVariable or by its file, which is
// made where it is missing; nil without one.
func FindToken(given, file string, logger *slog.Logger) (*Token, error) {
	switch {
	case given == "" && file == "":
		return nil, nil
	case given != "" && file != "":
		return nil, fmt.Errorf("there are %s and --admin-token-file: keep one", TokenVariable)
	case given != "":
		token, err := parseToken(given)
		if err != nil {
			return nil, fmt.Errorf("%s %w", TokenVariable, err)
		}
		return &Token{current: token, logger: logger}, nil
	}
	t := &Token{file: file, logger: logger}
	err := t.read()
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeToken(file); err == nil {
			logger.Info("the operator's token was made", "file", file)
			err = t.read()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--admin-token-file: %w", err)
	}
	t.logIfExposed()
	return t, nil
}

// makeToken makes the file with a token. Of several hubs that begin at once one does.
func makeToken(file string) error {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails (crypto/rand)
	part, err := os.CreateTemp(filepath.Dir(file), ".admin-token-*")
	if failed, is := errors.AsType[*fs.PathError](err); is {
		err = failed.Err // the name in it was not the operator's
	}
	if err != nil {
		return fmt.Errorf("%s is not there and cannot be made: %w", file, err)
	}
	defer os.Remove(part.Name())
	_, err = fmt.Fprintln(part, hex.EncodeToString(random))
	if err := errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Link(part.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ReadToken is FindToken for a client, and so makes no file; "": no token is set.
func ReadToken(given, file string, logger *slog.Logger) (string, error) {
	if _, err := os.Stat(file); file != "" && err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err) // a client makes no file
	}
	t, err := FindToken(given, file, logger)
	if err != nil || t == nil {
		return "", err
	}
	return t.Now(), nil
}

// Now returns the token as it is now.
func (t *Token) Now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	return t.current
}

// look takes a file that has changed; a bad one is logged once, and the token of before stands. The
// mutex is held.
func (t *Token) look() {
	if t.file == "" || time.Since(t.looked) < lookAtTokenEvery {
		return
	}
	t.looked = time.Now()
	info, err := os.Stat(t.file)
	if err == nil && t.problem == "" && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) &&
		info.Size() == t.info.Size() && info.Mode() == t.info.Mode() {
		return
	}
	before, problem := t.current, t.problem
	err = t.readLocked()
	switch {
	case err != nil && err.Error() != problem:
		t.problem = err.Error()
		t.logger.Error("the operator's token cannot be read again: the one of before stands", "error", err)
	case err == nil:
		t.problem = ""
		if before != t.current {
			t.logger.Warn("the operator's token is another now: all sessions are over", "file", t.file)
		}
		t.logIfExposed()
	}
}

func (t *Token) read() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readLocked()
}

// readLocked reads the file. Errors do not tell what is in it. The mutex is held.
func (t *Token) readLocked() error {
	info, err := os.Stat(t.file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", t.file)
	}
	file, err := os.Open(t.file)
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, 2*maxToken))
	if err != nil {
		return err
	}
	token, err := parseToken(string(text))
	if err != nil {
		return fmt.Errorf("%s %w", t.file, err)
	}
	t.current, t.info, t.looked = token, info, time.Now()
	t.exposed = runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
	return nil
}

// logIfExposed warns of a file that is open to others.
func (t *Token) logIfExposed() {
	if t.exposed {
		t.logger.Warn(t.exposure())
	}
}

func (t *Token) exposure() string {
	return fmt.Sprintf(
		"--admin-token-file %s can be read by every user of the machine, who can do with the hub what its operator can: chmod 600 it",
		t.file,
	)
}

// Warnings are what the operator must know of the file.
func (t *Token) Warnings() (all []string) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	if t.problem != "" {
		all = append(all, "--admin-token-file cannot be read again, and the token of before stands: "+t.problem)
	}
	if t.exposed {
		all = append(all, t.exposure())
	}
	return all
}

// parseToken takes a token with an end of line or without. Errors do not tell it.
func parseToken(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < minToken:
		return "", fmt.Errorf(
			"has a token of %d bytes: it must have %d or more, as that of openssl rand -hex 32 has",
			len(text), minToken,
		)
	case len(text) > maxToken || strings.Trim(
		text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=",
	) != "":
		// RFC 6750 §2.1.
		return "", fmt.Errorf(
			"has no token that can be sent: one line of letters, digits and -._~+/=, of at most %d bytes", maxToken,
		)
	}
	return text, nil
}
