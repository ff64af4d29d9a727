package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/internal/await"
	"carillon/notifier"
	"carillon/payload"
)

// Bounds of what is under way, in files.
const (
	// examiners is how many files are read at a time.
	examiners = 4
	// announceAtOnce is how many changes are put in the journal together, if they are
	// there already; as many again may wait for that.
	announceAtOnce = 1000
)

// Directory makes the events of one set. Run it once; Files may be had before.
type Directory struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	changes chan change   // to be announced
	rescan  chan struct{} // holds one token: a scan is asked for
	names   names
	queue   *queue
	watches *watches
	told    *loggedFiles

	// Tests set these.
	list    func(root *os.Root, rel string) (*listing, error)
	read    func(ctx context.Context, root *os.Root, rel string, info fs.FileInfo) (payload.Entry, error)
	scanned func(error) // is called at each scan's end; nil otherwise

	mu   sync.Mutex
	root fs.FileInfo // guarded by mu: as the last scan found it; nil: nothing may be announced
}

// New looks whether the state of the set can be asked, and whether it is whole:
// notifier.ErrNotWhole.
func New(ctx context.Context, cfg Config) (*Directory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	_, all, err := cfg.State.Resources(ctx, cfg.Set)
	if err != nil {
		return nil, fmt.Errorf("the set %q cannot be made of a directory: %w", cfg.Set, err)
	}
	for range all {
		break // unfinished work is dropped
	}
	log, paths := cfg.Logger.With("set", cfg.Set), names{base: cfg.Base, dir: cfg.Dir}
	d := &Directory{
		cfg: cfg, log: log, metrics: newMetrics(cfg.Registry, cfg.Set), names: paths,
		changes: make(chan change, announceAtOnce), rescan: make(chan struct{}, 1),
		watches: &watches{names: paths, log: log, folders: map[string]*folder{}},
		list:    list, read: read,
	}
	d.told = &loggedFiles{log: log, gauge: d.metrics.unreadable, files: map[string]uint64{}}
	d.queue = &queue{
		names: paths, rest: cfg.Settle, most: maxPending, overflow: d.askRescan,
		work: make(chan job, examiners), unsettle: make(chan struct{}, 1),
		pending: map[string]*wait{}, busy: map[string]*job{},
	}
	return d, nil
}

// Run announces the files of the directory, and their changes, until ctx ends. The next start finds
// the rest. It returns nil.
func (d *Directory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	d.startWatching(ctx, g)
	for range examiners {
		g.Go(func() error { d.examine(ctx); return nil })
	}
	g.Go(func() error { d.announce(ctx); return nil })
	g.Go(func() error { d.queue.settle(ctx); return nil })
	g.Go(func() error { d.scanAgain(ctx); return nil })
	return g.Wait()
}

// startWatching starts what takes the events of the file system. Without it scans
// find what they can.
func (d *Directory) startWatching(ctx context.Context, g *errgroup.Group) {
	watcher, err := d.cfg.NewWatcher()
	if err != nil {
		d.log.Warn("directories cannot be watched; changes are found by rescans only",
			"error", err, "hint", limitHint(err), "watch_rescan", d.cfg.Rescan.String())
		return
	}
	d.watches.start(watcher)
	g.Go(func() error {
		for event := range watcher.Events() {
			d.happened(event)
		}
		return nil
	})
	g.Go(func() error { // apart from the events: Add and Remove may wait for it
		for err := range watcher.Errors() {
			d.log.Info("events of the file system were lost; a scan will find what they were", "error", err)
			d.watches.lose()
			d.askRescan()
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		if err := watcher.Close(); err != nil {
			d.log.Warn("watching the file system has ended with an error", "error", err)
		}
		return nil
	})
}

// open opens the directory for reading files that are to be announced. Where it is not
// the one that the last scan found, as a disk was mounted there or taken away, it
// is an error, and a scan is asked for.
func (d *Directory) open() (*os.Root, error) {
	d.mu.Lock()
	known := d.root
	d.mu.Unlock()
	if known == nil {
		return nil, errHeld
	}
	root, info, err := openRoot(d.cfg.Dir)
	if err == nil && !os.SameFile(known, info) {
		root.Close()
		err = errors.New("it is not the directory that it was")
	}
	if err != nil {
		d.askRescan()
		return nil, err
	}
	return root, nil
}

var errHeld = errors.New("nothing is announced at the moment")

func openRoot(dir string) (*os.Root, fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	return root, info, nil
}

// askRescan asks for a scan; the next one that begins is the answer.
func (d *Directory) askRescan() { await.Wake(d.rescan) }

// patiently asks the state for as long as it takes it to be there. It returns an error
// only if ctx ended, or the error is not one that passes.
func (d *Directory) patiently(ctx context.Context, what string, do func() error) error {
	const first, longest = 500 * time.Millisecond, time.Minute
	for wait := first; ; wait = min(2*wait, longest) {
		err := do()
		if !errors.Is(err, notifier.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		d.log.Error(
			"trouble with the journal; it is tried again", "while", what, "error", err, "retry_in", wait.String(),
		)
		if await.For(ctx, wait) != nil {
			return ctx.Err()
		}
	}
}
