package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Backup is a state of the store that is held.
type Backup interface {
	Write(ctx context.Context, w io.Writer) error
	Close() error
}

// Bounds of a backup over the control socket.
const (
	backupStall = time.Minute // a reader that does not read on is given up
	backupChunk = 256 << 10   // for which it has that long, in bytes
)

// backup answers with a backup as a stream; one that fails on the way is cut off.
func (a *api) backup(w http.ResponseWriter, r *request) error {
	if a.Backup == nil {
		return Refusal(
			http.StatusNotFound,
			"A backup is made by hub backup, beside the store: it holds secrets, and is not for this listener.",
		)
	}
	b, err := a.Backup(r.Context())
	if err != nil {
		return err
	}
	begun := time.Now()
	defer func() {
		if failed := b.Close(); failed != nil {
			a.Logger.Error("after a backup", "error", failed)
		}
	}()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Cache-Control", "no-store")
	to := &patient{to: w, control: http.NewResponseController(w)}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-a.Stopping:
			to.end() // it may take longer than the rest of the end
		case <-done:
		}
	}()
	out := bufio.NewWriterSize(to, backupChunk)
	if err = b.Write(r.Context(), out); err == nil {
		err = errors.Join(out.Flush(), to.control.Flush()) // what the server holds back may fail to go
	}
	if err != nil {
		a.Logger.Error("a backup was broken off", "error", err)
		panic(http.ErrAbortHandler) // so that the other side sees it
	}
	a.Logger.Info("a backup was made", "took", time.Since(begun))
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
