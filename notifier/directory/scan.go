package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"carillon/internal/await"
	"carillon/payload"
)

const (
	// heldRetry is how often a directory is looked at that is not there.
	heldRetry = time.Minute
	// secondLook is how long after the first look a directory without anything of the set is looked at
	// again: the system's events have come by then.
	secondLook = time.Second
	// scanShare is how many times as long as a scan there are no scans after it that only
	// an event asked for, so that a huge directory is not scanned all the time; but not
	// longer than a rescan would be waited for.
	scanShare = 9
)

// errHold: the directory is not there as it should be, and nothing may be announced.
type errHold struct{ reason string }

func (e *errHold) Error() string { return e.reason }

// scanAgain scans at the start, as often as Config.Rescan says, and where it is asked
// for, until ctx ends.
func (d *Directory) scanAgain(ctx context.Context) {
	for held := ""; ctx.Err() == nil; {
		begun := time.Now()
		err := d.patiently(ctx, "scanning", func() error { return d.scan(ctx) })
		if ctx.Err() != nil {
			return
		}
		took := time.Since(begun)
		again := d.cfg.Rescan
		var hold *errHold
		switch {
		case err == nil:
			if held != "" {
				d.log.Info("the watched directory is there again", "dir", d.cfg.Dir)
			}
			held = ""
			d.metrics.scanned.Set(float64(begun.UnixMicro()) / 1e6)
			d.ended(complete, took)
		case errors.As(err, &hold):
			if held != hold.reason {
				d.log.Warn(
					"nothing is announced of the watched directory until it is as it should be",
					"dir", d.cfg.Dir, "reason", hold.reason,
				)
			}
			held, again = hold.reason, min(again, heldRetry)
			d.ended(waiting, took)
		default:
			d.log.Error("the watched directory cannot be compared with what the set has", "error", err)
			d.ended(failed, took)
		}
		if d.scanned != nil {
			d.scanned(err)
		}
		d.untilNext(ctx, again, max(d.cfg.Settle, min(scanShare*took, again)))
	}
}

func (d *Directory) ended(o outcome, took time.Duration) {
	d.metrics.scans[o].Inc()
	d.metrics.duration.Set(took.Seconds())
	d.metrics.held.Set(0)
	if o == waiting {
		d.metrics.held.Set(1)
	}
}

// untilNext waits for the next scan: the time for it, or the pause that is due after
// one was asked for.
func (d *Directory) untilNext(ctx context.Context, again, pause time.Duration) {
	if woken, _ := await.Until(ctx, again, d.rescan); woken {
		_ = await.For(ctx, min(pause, again)) // ctx may have ended
	}
	select { // this scan answers the requests until now
	case <-d.rescan:
	default:
	}
}

// scan compares the whole directory with the set, once: both in the order of their URIs. Files that
// differ are examined, which holds it up: so the store keeps its snapshot for that long.
func (d *Directory) scan(ctx context.Context) error {
	root, info, err := openRoot(d.cfg.Dir)
	if err != nil {
		d.hold()
		return &errHold{"it cannot be opened: " + err.Error()}
	}
	defer root.Close()
	if err := d.convincing(ctx, root, info); err != nil {
		d.hold()
		return err
	}
	d.begin(info)
	_, all, err := d.cfg.State.Resources(ctx, d.cfg.Set)
	if err != nil {
		return fmt.Errorf("reading what the set has: %w", err)
	}
	next, stop := iter.Pull2(all)
	defer stop()
	s := &scan{d: d, ctx: ctx, root: root, next: next}
	s.advance()
	s.folder("", info, 0)
	for s.err == nil && s.more {
		s.missing()
	}
	if s.err != nil {
		return s.err
	}
	d.finish(s)
	return nil
}

// hold has nothing announced.
func (d *Directory) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.root = nil
}

// begin is the beginning of a scan.
func (d *Directory) begin(info fs.FileInfo) {
	d.mu.Lock()
	another := d.root != nil && !os.SameFile(d.root, info)
	d.root = info
	d.mu.Unlock()
	d.told.begin()
	d.watches.begin(another)
}

// finish is the end of a complete scan.
func (d *Directory) finish(s *scan) {
	d.metrics.resources.Set(float64(s.files))
	d.told.end()
	d.metrics.folders.Set(float64(d.watches.end()))
}

// convincing is plausible, except for a directory from which all of the set was deleted a moment ago.
// It concludes nothing while reported removals are not announced, and for a moment more, as further
// reports may be on their way.
func (d *Directory) convincing(ctx context.Context, root *os.Root, info fs.FileInfo) error {
	for looks := 1; ; looks++ {
		removals := d.queue.underWay() // before the set is read: removals announced by then are not in it
		err := d.plausible(ctx, root)
		var hold *errHold
		if !errors.As(err, &hold) || !d.isAs(info) || looks > 1 && !removals {
			return err
		}
		if await.For(ctx, secondLook) != nil {
			return ctx.Err()
		}
	}
}

// isAs reports whether the directory is the one that the last scan found.
func (d *Directory) isAs(info fs.FileInfo) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root != nil && os.SameFile(d.root, info)
}

// plausible reports whether the directory is the one of the set: whether it has any
// of the set's resources, if there are any, or says itself that it replaces them.
func (d *Directory) plausible(ctx context.Context, root *os.Root) error {
	_, all, err := d.cfg.State.Resources(ctx, d.cfg.Set)
	if err != nil {
		return fmt.Errorf("reading what the set has: %w", err)
	}
	count := 0
	for e, err := range all {
		if err != nil {
			return fmt.Errorf("reading what the set has: %w", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if rel, ok := d.names.relOf(e.Loc); ok && !isAbsent(root, rel) {
			return nil
		}
		count++
	}
	if count == 0 {
		return nil
	}
	if _, err := root.Lstat(ReplaceMarker); err == nil {
		return nil
	}
	return &errHold{fmt.Sprintf("it has none of the %d resources of the set; if all of them are deleted indeed, or their URIs were "+
		"others, put a file named %s there", count, ReplaceMarker)}
}

// isAbsent reports whether there certainly is no such resource.
func isAbsent(root *os.Root, rel string) bool {
	info, err := lstat(root, rel)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular()
}

// scan is one scan.
type scan struct {
	d    *Directory
	ctx  context.Context //nolint:containedctx // it lives as long as one call
	root *os.Root
	next func() (payload.Entry, error, bool)

	had  payload.Entry // the resource of the set that was not yet met
	more bool          // there is one
	err  error         // ends the scan

	loc   []byte // scratch
	files int
}

func (s *scan) advance() {
	var err error
	s.had, err, s.more = s.next()
	if err != nil {
		s.err = fmt.Errorf("reading what the set has: %w", err)
	}
	if s.err == nil {
		s.err = s.ctx.Err()
	}
}

// folder goes through a directory, and through what the set has up to its end.
func (s *scan) folder(rel string, info fs.FileInfo, above uint64) {
	prefix := s.d.cfg.Base
	if rel != "" {
		prefix = s.d.names.locOf(rel) + "/"
	}
	if err := s.mayEnter(rel, prefix, info, above); err != nil {
		s.passOver(rel, prefix, err)
		return
	}
	s.d.watches.add(rel, deviceOf(info))
	l, err := s.d.list(s.root, rel)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || rel == "" {
			s.passOver(rel, prefix, err)
		}
		return // it is missing
	}
	s.d.told.forget(slash(rel))
	for i := range l.items {
		if s.err != nil {
			return
		}
		if l.isDir(i) {
			child := join(rel, l.name(i))
			if info, err := s.root.Lstat(child); err == nil && info.IsDir() {
				s.folder(child, info, s.d.watches.deviceOf(rel))
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.passOver(child, s.d.names.locOf(child)+"/", err)
			}
			continue
		}
		s.loc = append(append(s.loc[:0], prefix...), l.key(i)...)
		s.file(rel, l, i)
	}
}

// mayEnter reports why a directory is not gone through.
func (s *scan) mayEnter(rel, prefix string, info fs.FileInfo, above uint64) error {
	if len(prefix) > maxLoc {
		return fmt.Errorf("no resources: the URIs of its files would have more than %d characters", maxLoc)
	}
	if rel != "" && s.d.watches.unmounted(rel, deviceOf(info), above) {
		return errors.New("what was mounted there is not there any more")
	}
	return nil
}

// passOver leaves what the set has below a directory as it is.
func (s *scan) passOver(rel, prefix string, err error) {
	s.d.told.once(slash(rel), err)
	for s.err == nil && s.more && s.had.Loc < prefix {
		s.missing()
	}
	for s.err == nil && s.more && strings.HasPrefix(s.had.Loc, prefix) {
		s.advance()
	}
}

// file compares a file with what the set has, which is missing up to it.
func (s *scan) file(dir string, l *listing, i int) {
	s.files++
	for s.err == nil && s.more && s.had.Loc < string(s.loc) {
		s.missing()
	}
	if s.err != nil {
		return
	}
	known := s.more && s.had.Loc == string(s.loc)
	modified := time.Unix(0, int64(l.items[i].modified))
	as := known && sameMeta(&s.had, l.items[i].size, modified)
	if known {
		s.advance()
	}
	if as {
		return
	}
	s.candidate(join(dir, l.name(i)), modified)
}

// candidate has a file examined at once if it rests.
func (s *scan) candidate(rel string, modified time.Time) {
	if !restedFor(modified, time.Now(), s.d.cfg.Settle) {
		s.d.queue.awaitAgain(rel, wait{})
		return
	}
	if !s.d.queue.submit(s.ctx, job{rel: rel}) {
		s.err = s.ctx.Err()
	}
}

// missing takes a resource of the set that the directory has not.
func (s *scan) missing() {
	loc := s.had.Loc
	s.advance()
	if s.err != nil {
		return
	}
	rel, ok := s.d.names.relOf(loc)
	if !ok { // no file here can be it
		select {
		case s.d.changes <- change{entry: payload.Entry{Loc: loc, Change: payload.Deleted}}:
		case <-s.ctx.Done():
			s.err = s.ctx.Err()
		}
		return
	}
	// It was looked for a moment ago, and may have come since, or be where it cannot be seen.
	if isAbsent(s.root, rel) && !s.d.queue.submit(s.ctx, job{rel: rel, gone: true}) {
		s.err = s.ctx.Err()
	}
}
