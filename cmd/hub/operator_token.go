package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"carillon/cmd/internal/program"
	"carillon/operator/api"
)

// operatorFlags say who may use the operator's listener.
type operatorFlags struct {
	AdminPprof     bool   `help:"Have the profiles of the process at /debug/pprof/ of the operator's listener, for go tool pprof. They are for who may use that listener; making one slows the hub down."`
	AdminTokenFile string `placeholder:"FILE" help:"File with the operator's token, which whoever uses the operator's listener must show; a changed one is taken without a restart. Where there is no such file it is made, with a token in it. $HUB_ADMIN_TOKEN may have the token itself. Needed where --admin is not a loopback address."`
	AdminPlain     bool   `help:"Let the operator's listener speak plain HTTP on an address that is not loopback, where whoever sees the traffic sees the token: in a private network, or behind a proxy with TLS."`
}

// adminTokenVariable may have the operator's token. It is no flag: a command line can be seen
// by every user of the machine.
const adminTokenVariable = "HUB_ADMIN_TOKEN"

// Bounds of the operator's token, bytes.
const (
	minAdminToken = 16  // less can be guessed
	maxAdminToken = 512 // stops a file that is none
)

// lookAtTokenEvery is how often it is looked whether the file has changed, at most.
const lookAtTokenEvery = 500 * time.Millisecond

// operatorToken is the operator's token, from the environment or from a file that may
// change.
type operatorToken struct {
	file   string // "": it is from the environment
	logger *slog.Logger

	mu      sync.Mutex
	current string      // guarded by mu, as all below
	info    fs.FileInfo // of the file, when it was read
	looked  time.Time
	problem string // why the file as it is now is not taken
	exposed bool   // every user of the machine may read the file
}

// findAdminToken reads the operator's token, or makes its file; nil: there is none.
func findAdminToken(file string, logger *slog.Logger) (*operatorToken, error) {
	given := os.Getenv(adminTokenVariable)
	switch {
	case given == "" && file == "":
		return nil, nil
	case given != "" && file != "":
		return nil, fmt.Errorf("there are %s and --admin-token-file: keep one", adminTokenVariable)
	case given != "":
		token, err := parseAdminToken(given)
		if err != nil {
			return nil, fmt.Errorf("%s %w", adminTokenVariable, err)
		}
		return &operatorToken{current: token, logger: logger}, nil
	}
	t := &operatorToken{file: file, logger: logger}
	err := t.read()
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeAdminToken(file); err == nil {
			logger.Info("the operator's token was made", "file", file)
			err = t.read()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--admin-token-file: %w", err)
	}
	t.tellIfExposed()
	return t, nil
}

// makeAdminToken makes the file with a token. Of several hubs that begin at once one does.
func makeAdminToken(file string) error {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails (crypto/rand)
	part, err := os.CreateTemp(filepath.Dir(file), ".admin-token-*")
	if failed, is := errors.AsType[*fs.PathError](err); is {
		err = failed.Err // the name is none that anybody gave
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

// readAdminToken is the token for a command that asks; "": there is none.
func readAdminToken(file string, logger *slog.Logger) (string, error) {
	if _, err := os.Stat(file); file != "" && err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err) // none is made for who asks
	}
	t, err := findAdminToken(file, logger)
	if err != nil || t == nil {
		return "", err
	}
	return t.Token(), nil
}

// Token returns the token as it is now.
func (t *operatorToken) Token() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	return t.current
}

// look takes a file that has changed; one that is bad is told once, and the token of before
// stands. The mutex is held.
func (t *operatorToken) look() {
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
		t.tellIfExposed()
	}
}

func (t *operatorToken) read() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readLocked()
}

// readLocked reads the file. Errors do not tell what is in it. The mutex is held.
func (t *operatorToken) readLocked() error {
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
	text, err := io.ReadAll(io.LimitReader(file, 2*maxAdminToken))
	if err != nil {
		return err
	}
	token, err := parseAdminToken(string(text))
	if err != nil {
		return fmt.Errorf("%s %w", t.file, err)
	}
	t.current, t.info, t.looked = token, info, time.Now()
	t.exposed = runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
	return nil
}

// tellIfExposed warns of a file that is open to others.
func (t *operatorToken) tellIfExposed() {
	if t.exposed {
		t.logger.Warn(t.exposure())
	}
}

func (t *operatorToken) exposure() string {
	return fmt.Sprintf("--admin-token-file %s can be read by every user of the machine, who can do with the hub what its operator can: chmod 600 it", t.file)
}

// Warnings are what the operator must know of the file.
func (t *operatorToken) Warnings() (all []string) {
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

// parseAdminToken takes a token with an end of line or without. Errors do not tell it.
func parseAdminToken(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < minAdminToken:
		return "", fmt.Errorf("has a token of %d bytes: it must have %d or more, as that of openssl rand -hex 32 has", len(text), minAdminToken)
	case len(text) > maxAdminToken || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") != "":
		// RFC 6750 §2.1.
		return "", fmt.Errorf("has no token that can be sent: one line of letters, digits and -._~+/=, of at most %d bytes", maxAdminToken)
	}
	return text, nil
}

// guardOperator says who may use the operator's listener, or why it cannot be opened so.
func (h *house) guardOperator(f serveCommand) (err error) {
	at, err := netip.ParseAddrPort(h.operator.Addr().String())
	if err := f.guard(err == nil && at.Addr().Unmap().IsLoopback(), h.logger); err != nil {
		return err
	}
	if h.token, err = findAdminToken(f.AdminTokenFile, h.logger); err == nil && h.token != nil {
		h.auth = api.NewAuth(h.token.Token, h.logger)
		h.auth.Proxies = f.TrustedProxy
	}
	return err
}

// guard refuses an operator's listener that is reached by others than this machine, and has
// no token, or lets it be read on the way.
func (f *serveCommand) guard(loopback bool, logger *slog.Logger) error {
	plain := f.AdminTLS == (program.TLS{})
	switch {
	case loopback:
	case f.AdminTokenFile == "" && os.Getenv(adminTokenVariable) == "":
		return fmt.Errorf("--admin %s is reached by others than this machine: give --admin-token-file FILE (it is made where there is none) "+
			"and --admin-tls-cert with --admin-tls-key or --admin-plain, or listen on a loopback address", f.Admin)
	case plain && !f.AdminPlain:
		return fmt.Errorf("--admin %s is reached by others than this machine, and without TLS they can read the operator's token on the way: "+
			"give --admin-tls-cert and --admin-tls-key, or --admin-plain where the network is your own", f.Admin)
	case plain:
		logger.Warn("the operator's listener speaks plain HTTP: whoever sees the traffic can take the operator's token", "admin", f.Admin)
	}
	return nil
}

// lookForAdminToken is an error where findAdminToken would have one. It makes no file.
func lookForAdminToken(file string, logger *slog.Logger) error {
	_, err := os.Stat(file)
	if file == "" || os.Getenv(adminTokenVariable) != "" || !errors.Is(err, fs.ErrNotExist) {
		_, err = findAdminToken(file, logger)
		return err
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(dir); err != nil { // none is made for it
		return fmt.Errorf("--admin-token-file: %s is not there and cannot be made: %w", file, err)
	}
	if err := program.CheckDirectory(dir); err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	return nil
}
