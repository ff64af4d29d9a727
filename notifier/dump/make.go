package dump

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/notifier/moments"
	"carillon/payload"
	"carillon/topic"
)

// The making of a generation:
//
//	plan ──▶ reader ──▶ work ──▶ workers: open, verify, hash, pack
//	            │                   │
//	            └────▶ order ──▶ sequencer: entries in the order of the plan ──▶ packages
//
// Workers run ahead of the sequencer by a window. What they hold is small content in memory, or
// files. The sequencer alone decides where a package ends.
const (
	// window is how many entries may be between reader and sequencer.
	window = 64
	// unreachableAtMost is after how many entries in a row that could not be reached the making
	// stops, to go on later.
	unreachableAtMost = 100
	// leftOutLines is how many entries that are left out the log names.
	leftOutLines = 20
)

// errMostLeftOut: a dump with less than half of its content is not announced.
var errMostLeftOut = errors.New("more than half of the content could not be had")

// maker makes one generation.
type maker struct {
	shelf  *shelf
	dir    string // of moments.Begin
	plan   plan
	packer packer
	shown  *progress
	files  atomic.Int64

	gen      *generation
	out      *packageWriter
	in       map[string]place // changes only: where the content of a resource is in the package
	scratch  []byte
	offset   int64 // of the plan: everything before is in finished packages
	consumed int64 // of the plan: everything before is in the package that is being put together, too
	last     time.Time
	from     time.Time // of the package
	row      int       // unreachable in a row
	givenUp  sync.Map  // hosts that are not asked any more
	lines    int
	packed   int // entries with content, or deletions
}

// place is a member of the package, and what the package says of it.
type place struct {
	path  string
	entry payload.Entry
}

// finished is what N.json says: a package, and where the plan goes on after it.
type finished struct {
	zipFile
	Next    int64          `json:"next"`
	Last    time.Time      `json:"last,omitzero"`
	LeftOut map[Reason]int `json:"left_out,omitempty"` // up to here
	Packed  int            `json:"packed"`
}

// job is an entry on its way.
type job struct {
	*planned
	item *item
	done chan struct{} // closed when item is there; nil: none will be
}

// run makes the generation, or resumes it.
func (m *maker) run(ctx context.Context) (*generation, error) {
	m.gen = &generation{
		Version: versionKnown, Set: m.plan.Set, Kind: m.plan.Kind, At: m.plan.At,
		From: m.plan.From, Until: m.plan.Until, LeftOut: map[Reason]int{}, dir: m.dir,
	}
	m.from = m.plan.From
	if err := m.resume(); err != nil {
		return nil, err
	}
	m.shown.begin(m.plan.Kind, m.plan.Entries, m.plan.Content, m.gen)
	err := m.pipeline(ctx)
	if m.out != nil {
		err = errors.Join(err, m.out.close())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = m.enough()
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		return nil, err
	}
	return m.gen, nil
}

// enough returns an error if the dump has less than half of its content. Resources deleted since do
// not count as missing. A part of the Change Dump waits for its content for Config.Every at most, as
// the parts behind it wait, too.
func (m *maker) enough() error {
	missed := m.gen.LeftOutTotal() - m.gen.LeftOut[Deleted]
	if missed <= m.packed || m.plan.Kind == Changes && m.holdLeft() <= 0 {
		return nil
	}
	return fmt.Errorf("%w: %d entries are left out, and %d are there", errMostLeftOut, missed, m.packed)
}

// resume loads the packages that an earlier process has finished.
func (m *maker) resume() error {
	for n := 1; ; n++ {
		var f finished
		err := moments.ReadJSON(m.note(n), maxGeneration, &f)
		if errors.Is(err, os.ErrNotExist) {
			return m.sweep(n)
		}
		if err != nil {
			return err
		}
		m.gen.Packages = append(m.gen.Packages, f.zipFile)
		m.offset, m.gen.LeftOut, m.packed = f.Next, f.LeftOut, f.Packed
		if m.gen.LeftOut == nil {
			m.gen.LeftOut = map[Reason]int{}
		}
		if !f.Until.IsZero() {
			m.from = f.Until
		}
	}
}

func (m *maker) note(n int) string { return filepath.Join(m.dir, strconv.Itoa(n)+".json") }

// sweep removes the files of a killed process, except the plan and the packages before n.
func (m *maker) sweep(n int) error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{planName: true, planInfo: true}
	for k := 1; k < n; k++ {
		keep[packageName(k)], keep[filepath.Base(m.note(k))] = true, true
	}
	for _, entry := range entries {
		if keep[entry.Name()] {
			continue
		}
		if err := m.shelf.d.room.remove(filepath.Join(m.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// pipeline packs the rest of the plan.
func (m *maker) pipeline(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	work, order := make(chan *job, window), make(chan *job, window)
	g.Go(func() error {
		defer close(work)
		defer close(order)
		return m.read(ctx, work, order)
	})
	for range m.shelf.workers {
		g.Go(func() error {
			for j := range work {
				j.item = m.packer.pack(ctx, &j.Entry)
				close(j.done)
			}
			return nil
		})
	}
	var unused []*job // after an error; sweep removes files that are left
	g.Go(func() error {
		for j := range order {
			if err := m.take(ctx, j); err != nil {
				return err
			}
		}
		if m.out == nil || m.out.empty() {
			return m.lastPackage(ctx)
		}
		return m.endPackage(m.plan.Until)
	})
	err := g.Wait()
	for j := range order {
		unused = append(unused, j)
	}
	for _, j := range unused {
		if j.item != nil {
			j.item.discard(m.shelf.d.room)
		}
	}
	return err
}

// lastPackage makes an empty package: of a plan whose rest has no content, or without entries.
func (m *maker) lastPackage(ctx context.Context) error {
	covered := m.plan.Kind == Resources || m.from.Equal(m.plan.Until)
	if ctx.Err() != nil || len(m.gen.Packages) > 0 && covered {
		return ctx.Err()
	}
	if err := m.begin(); err != nil {
		return err
	}
	return m.endPackage(m.plan.Until)
}

func (m *maker) read(ctx context.Context, work, order chan<- *job) error {
	for one, err := range m.plan.entries(ctx, m.dir, m.offset) {
		if err != nil {
			return err
		}
		j := &job{planned: one}
		if one.Change != payload.Deleted && !one.same {
			j.done = make(chan struct{})
		}
		select {
		case order <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.done == nil {
			continue
		}
		select {
		case work <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// take waits for the content of an entry, and places the entry.
func (m *maker) take(ctx context.Context, j *job) error {
	if j.done != nil {
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := m.place(ctx, j); err != nil {
		return err
	}
	m.consumed, m.last = j.next, j.Datetime
	return nil
}

// place adds an entry to a package.
func (m *maker) place(ctx context.Context, j *job) error {
	if j.Change == payload.Deleted {
		return m.put(ctx, &j.Entry, nil)
	}
	if j.same {
		if at, is := m.in[j.Loc]; is {
			e := at.entry
			e.Path, e.Change, e.Datetime = at.path, j.Change, j.Datetime
			return m.put(ctx, &e, nil)
		}
		j.item = m.packer.pack(ctx, &j.Entry) // the package that has it is finished
	}
	it := j.item
	if it.err != nil {
		return m.leaveOut(it)
	}
	m.row = 0
	return m.put(ctx, &it.entry, it)
}

// put writes an entry, and its content if it has some; a package that is full ends before it.
func (m *maker) put(ctx context.Context, e *payload.Entry, it *item) error {
	for {
		if m.out == nil {
			if err := m.begin(); err != nil {
				return err
			}
		}
		var content *member
		if it != nil {
			content = &it.member
			e.Path = "/" + m.out.nextName()
		}
		var err error
		if m.scratch, err = payload.AppendBitstream(m.scratch[:0], e); err != nil {
			return fmt.Errorf("%.200q: %w", e.Loc, err)
		}
		if m.out.empty() || m.out.fits(m.scratch, content) {
			break
		}
		if err := m.endPackage(nextMicro(m.last)); err != nil {
			return err
		}
		if it == nil && e.Path != "" { // its content is in the package that has ended
			return m.repack(ctx, e)
		}
	}
	bytes := int64(0)
	if it != nil {
		bytes = it.size
		if err := m.out.add(it); err != nil {
			return err
		}
		if m.plan.Kind == Changes {
			m.in[e.Loc] = place{e.Path, *e}
		}
	}
	m.packed++
	m.shown.entry(bytes)
	return m.out.list(m.scratch)
}

// repack packs the content of a change again, as the package with the change before is finished.
func (m *maker) repack(ctx context.Context, e *payload.Entry) error {
	told := *e
	told.Path = ""
	it := m.packer.pack(ctx, &told)
	if it.err != nil {
		return m.leaveOut(it)
	}
	return m.put(ctx, &it.entry, it)
}

// leaveOut counts an entry without content. An error ends the making.
func (m *maker) leaveOut(it *item) error {
	left, is := errors.AsType[*LeftOutError](it.err)
	if !is {
		return it.err
	}
	m.gen.LeftOut[left.Reason]++
	m.shelf.metrics.leftOut[left.Reason].Inc()
	m.shown.leftOut()
	if m.lines++; m.lines <= leftOutLines {
		m.shelf.log.Warn("a resource is left out of the dump",
			"loc", shown(it.entry.Loc), "reason", string(left.Reason), "error", left.Text)
	} else if m.lines == leftOutLines+1 {
		m.shelf.log.Warn("more resources are left out of the dump; the metric counts them")
	}
	if left.Reason != Unreachable {
		m.row = 0
		return nil
	}
	host := topic.Authority(it.entry.Loc)
	if _, is := m.givenUp.Load(host); is {
		return nil
	}
	if m.row++; m.row < unreachableAtMost {
		return nil
	}
	if wait := m.holdLeft(); wait > 0 {
		return &heldError{wait, fmt.Errorf("%w: %d resources in a row could not be reached, "+
			"the last as %w; in %s the dump goes on without them", ErrHeld, m.row, left, wait.Round(time.Second))}
	}
	m.row = 0
	m.givenUp.Store(host, nil)
	m.shelf.log.Warn("a server is given up for this dump, which goes on without its other resources",
		"host", shown(host), "error", left.Text)
	return nil
}

// holdLeft returns how long the making still waits for servers that cannot be reached; 0 or less:
// it goes on without them. A Resource Dump waits for as long as the one before is less than two
// intervals old, and not at all where that had to do without many, too. A part of the Change Dump
// waits for one interval, as the parts behind it wait as well.
func (m *maker) holdLeft() time.Duration {
	cfg := &m.shelf.d.cfg
	newest := m.shelf.newest()
	switch {
	case m.plan.Kind == Changes:
		return cfg.Every - cfg.Notifier.Now().Sub(m.plan.Until)
	case newest == nil:
		return cfg.Every - cfg.Notifier.Now().Sub(m.shelf.started)
	case newest.LeftOut[Unreachable] >= unreachableAtMost:
		return 0
	}
	return 2*cfg.Every - m.shelf.age(newest)
}

// unasked returns an error for a resource of a server that was given up.
func (m *maker) unasked(loc string) error {
	if _, is := m.givenUp.Load(topic.Authority(loc)); is {
		return leftOut(Unreachable, false, "its server was given up for this dump")
	}
	return nil
}

func (m *maker) begin() error {
	m.in = map[string]place{}
	m.out = &packageWriter{
		dir: m.dir, room: m.shelf.d.room,
		bytes: m.shelf.d.cfg.PackageBytes, entries: m.shelf.d.cfg.PackageEntries,
		modified: m.plan.At,
	}
	if m.plan.Kind == Changes {
		m.out.modified = m.plan.Until
	}
	return m.out.open()
}

// endPackage finishes the package. until is what it covers of changes.
func (m *maker) endPackage(until time.Time) error {
	n := len(m.gen.Packages) + 1
	if n > m.shelf.most {
		return fmt.Errorf("the dump needs %w; allow larger packages with --dump-package-bytes", m.shelf.tooMany())
	}
	head := payload.Head{Links: []payload.Link{{Rel: "up", Href: m.shelf.up}}}
	completed := m.shelf.d.completed(m.gen)
	if m.plan.Kind == Changes {
		head.Capability, head.From, head.Until = payload.CapChangeDumpManifest, m.from, until
	} else {
		head.Capability, head.At, head.Completed = payload.CapResourceDumpManifest, m.plan.At, completed
	}
	text, err := payload.AppendHead(nil, head)
	if err != nil {
		return err
	}
	p, err := m.out.finish(m.gen.File(n), text)
	err = errors.Join(err, m.out.close())
	m.out = nil
	if err != nil {
		return err
	}
	p.Completed = completed
	if m.plan.Kind == Changes {
		p.From, p.Until = m.from, until
		m.from = until
	}
	m.gen.Packages = append(m.gen.Packages, p)
	m.offset = m.consumed
	m.shown.finished(p)
	return m.shelf.d.room.writeJSON(m.note(n), finished{
		zipFile: p, Next: m.offset, Last: m.last, LeftOut: m.gen.LeftOut, Packed: m.packed,
	})
}

// finish makes the generation whole: it removes the plan and the notes, and gives it its name.
func (m *maker) finish() error {
	m.gen.Completed = m.shelf.d.completed(m.gen)
	if err := m.shelf.d.room.writeJSON(filepath.Join(m.dir, generationName), m.gen); err != nil {
		return err
	}
	drop := []string{filepath.Join(m.dir, planName), filepath.Join(m.dir, planInfo)}
	for n := range m.gen.Packages {
		drop = append(drop, m.note(n+1))
	}
	for _, name := range drop {
		if err := m.shelf.d.room.remove(name); err != nil {
			return err
		}
	}
	whole, err := moments.Finish(m.dir)
	if err != nil {
		return err
	}
	m.gen.dir, m.gen.since = whole, time.Now()
	return nil
}
