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
	// maxPending is how many files may wait until they rest, each with its name. What
	// comes beyond is found by a scan.
	maxPending = 1 << 16
	// announceAtOnce is how many changes are put in the journal together, if they are
	// there already; as many again may wait for that.
	announceAtOnce = 1000
	// maxTold is how many files that cannot be read, or be resources, are remembered as
	// told; of others the log tells at each scan.
	maxTold = 1000
)

// Directory makes the events of one set. Run it once; Files may be had before.
type Directory struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	work     chan job      // to be examined
	changes  chan change   // to be announced
	rescan   chan struct{} // holds one token: a scan is asked for
	unsettle chan struct{} // holds one token: pending has something

	// Tests set these.
	list    func(root *os.Root, rel string) (*listing, error)
	read    func(ctx context.Context, root *os.Root, rel string, info fs.FileInfo) (payload.Entry, error)
	most    int         // maxPending
	scanned func(error) // is called at each scan's end; nil otherwise

	mu       sync.Mutex       // guards what follows
	pending  map[string]*wait // files that may not be at rest, by path
	leaving  int              // files taken from pending, and not yet in busy
	busy     map[string]*job  // files under examination or being announced; what came meanwhile
	folders  map[string]*folder
	scans    uint64            // their number
	root     fs.FileInfo       // the directory as the last scan found it; nil: nothing may be announced
	watcher  Watcher           // nil where there is none
	noRoom   bool              // the system takes no more watches
	toldRoom bool              // that was told
	lost     bool              // events were lost
	told     map[string]uint64 // the number of the scan in which something was told of a file last
}

// folder is a directory below, or the directory itself, that is watched.
type folder struct {
	device uint64
	seen   uint64 // the number of the scan that saw it last
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
		break // what was begun is let go
	}
	return &Directory{
		cfg: cfg, log: cfg.Logger.With("set", cfg.Set), metrics: newMetrics(cfg.Registry, cfg.Set),
		work: make(chan job, examiners), changes: make(chan change, announceAtOnce),
		rescan: make(chan struct{}, 1), unsettle: make(chan struct{}, 1),
		pending: map[string]*wait{}, busy: map[string]*job{}, folders: map[string]*folder{}, told: map[string]uint64{},
		list: list, read: read, most: maxPending,
	}, nil
}

// Run announces what the directory has and gets until ctx ends. What it has not
// announced then is found at the next start. It returns nil.
func (d *Directory) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	d.startWatching(ctx, g)
	for range examiners {
		g.Go(func() error { d.examine(ctx); return nil })
	}
	g.Go(func() error { d.announce(ctx); return nil })
	g.Go(func() error { d.settle(ctx); return nil })
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
	d.mu.Lock()
	d.watcher = watcher
	d.mu.Unlock()
	g.Go(func() error {
		for event := range watcher.Events() {
			d.happened(event)
		}
		return nil
	})
	g.Go(func() error { // apart from the events: Add and Remove may wait for it
		for err := range watcher.Errors() {
			d.log.Info("events of the file system were lost; a scan will find what they were", "error", err)
			d.mu.Lock()
			d.lost = true
			d.mu.Unlock()
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

// tellOnce tells of a file for as long as it is remembered.
func (d *Directory) tellOnce(rel string, err error) {
	d.mu.Lock()
	_, known := d.told[rel]
	if known || len(d.told) < maxTold {
		d.told[rel] = d.scans
	}
	d.metrics.unreadable.Set(float64(len(d.told)))
	d.mu.Unlock()
	if !known {
		d.log.Warn("something in the watched directory is passed over; what was announced of it stands", "file", cut(rel), "error", err)
	}
}

// wasTold forgets that there was something to tell of a file.
func (d *Directory) wasTold(rel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.told, rel)
	d.metrics.unreadable.Set(float64(len(d.told)))
}

// patiently asks the state for as long as it takes it to be there. It returns an error
// only if ctx ended, or the error is not one that passes.
func (d *Directory) patiently(ctx context.Context, what string, do func() error) error {
	const first, longest = 500 * time.Millisecond, time.Minute
	for wait := first; ; wait = min(2*wait, longest) {
		err := do()
		if !errors.Is(err, notifier.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		d.log.Error("trouble with the journal; it is tried again", "while", what, "error", err, "retry_in", wait.String())
		if await.For(ctx, wait) != nil {
			return ctx.Err()
		}
	}
}
