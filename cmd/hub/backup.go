package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"carillon/cmd/internal/program"
	"carillon/operator/api"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
)

// backupCommand makes a backup of a store, whether or not a hub works on it.
type backupCommand struct {
	storeFlags

	Output string `env:"-" required:"" placeholder:"FILE" help:"Write to this file, which appears when it is whole and can be read by its owner only; - is standard output. The backup holds the secrets of all subscriptions: keep it like one."`
}

// Help says what the flags do not.
func (*backupCommand) Help() string {
	return "It has everything that the hub acknowledged before it began, and is a single moment in time. A hub that runs " +
		"goes on meanwhile: the command asks it, and must be run as the user of the hub. hub restore makes a store of it. " +
		"With Redis, back up Redis itself, or use hub export."
}

// errRedisBackup is the way with Redis.
var errRedisBackup = errors.New("it is kept by Redis, which is backed up by its own means: copy its RDB snapshot (BGSAVE) or its append-only files; " +
	"hub export writes what the hub keeps as a file that any engine takes")

func (f *backupCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) (err error) {
	if redisstore.IsURL(f.Store) {
		return f.failed(errRedisBackup)
	}
	if f.Output == "-" && isTerminal(stdout) {
		return errors.New("a backup holds secrets and is not for the screen: give --output FILE, or a pipe")
	}
	if err := f.refuseNothing(); err != nil {
		return err
	}
	c, err := openControl(ctx, f.storeFlags, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := c.stream(ctx, http.MethodPost, "/backup", nil)
	if err != nil {
		return fmt.Errorf("the backup failed: %w", err)
	}
	defer stream.Close()
	show := newReporter("backing up", 0, stderr, logger)
	var done pebblestore.BackupInfo
	copied := func(w io.Writer) (err error) {
		// Read as a restore will: what is not whole is no file.
		done, err = pebblestore.VerifyBackup(ctx, show.reading(io.TeeReader(stream, w)))
		if err == nil {
			drop(stream) // its end: who sends it is to see that it arrived
		}
		return err
	}
	if f.Output == "-" {
		err = writeStream(ctx, stdout, copied)
	} else {
		err = writeFile(f.Output, copied)
	}
	show.end()
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped: the backup is not whole, and no restore takes it")
	case errors.Is(err, pebblestore.ErrBackupCutOff):
		return fmt.Errorf("the backup failed: the hub broke it off (it ends, or its disk is nearly full: its log tells): %w", err)
	case err != nil:
		return fmt.Errorf("the backup failed: %w", err)
	case f.Output == "-":
		logger.Info("backed up", "bytes", done.Bytes, "files", done.Files, "hub_runs", c.Online)
	default:
		fmt.Fprintf(stdout, "hub backed up %d bytes to %s. It holds secrets.\n", done.Bytes, f.Output)
	}
	return nil
}

// backup is a state of the store that is held.
type backup interface {
	Write(ctx context.Context, w io.Writer) error
	Close() error
}

// Bounds of a backup over the control socket.
const (
	backupStall = time.Minute // a reader that does not read on is given up
	backupChunk = 256 << 10   // for which it has that long, in bytes
)

// backup answers with a backup as a stream; one that fails on the way is cut off.
func (c *controls) backup(w http.ResponseWriter, r *http.Request) (err error) {
	if c.store.Backup == nil {
		return api.Refusal(http.StatusConflict, errRedisBackup.Error())
	}
	b, err := c.store.Backup(r.Context())
	if errors.Is(err, pebblestore.ErrBackupRuns) {
		return api.Refusal(http.StatusConflict, err.Error())
	}
	if err != nil {
		return err
	}
	begun := time.Now()
	defer func() {
		if failed := b.Close(); failed != nil {
			c.logger.Error("after a backup", "error", failed)
		}
	}()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Cache-Control", "no-store")
	to := &patient{to: w, control: http.NewResponseController(w)}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-c.stopping:
			to.end() // it may take longer than the rest of the end
		case <-done:
		}
	}()
	out := bufio.NewWriterSize(to, backupChunk)
	if err = b.Write(r.Context(), out); err == nil {
		err = errors.Join(out.Flush(), to.control.Flush()) // what the server holds back may fail to go
	}
	if err != nil {
		c.logger.Error("a backup was broken off", "error", err)
		panic(http.ErrAbortHandler) // so that the other side sees it
	}
	c.logger.Info("a backup was made", "took", time.Since(begun))
	return nil
}

// patient writes for as long as there is progress, or until it is ended.
type patient struct {
	to      io.Writer
	control *http.ResponseController

	mu    sync.Mutex
	ended bool // guarded by mu
}

var errStopping = errors.New("the hub is stopping")

func (p *patient) Write(chunk []byte) (int, error) {
	if err := p.extend(); err != nil {
		return 0, err
	}
	return p.to.Write(chunk)
}

func (p *patient) extend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errStopping
	}
	return p.control.SetWriteDeadline(time.Now().Add(backupStall))
}

// end breaks off what is being written.
func (p *patient) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.control.SetWriteDeadline(time.Now()) // it is as good as none
}

// holdBackup is engine.Backup of a Pebble store.
func holdBackup(db *pebblestore.DB) func(ctx context.Context) (backup, error) {
	return func(ctx context.Context) (backup, error) {
		b, err := db.Backup(ctx, program.Version)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}
