package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// maxLoc is how long the URI of a resource may be.
const maxLoc = payload.MaxFieldChars

// examine takes files until ctx ends.
func (d *Directory) examine(ctx context.Context) {
	for {
		select {
		case j := <-d.queue.work:
			entry, err := d.compare(ctx, j)
			switch {
			case errors.Is(err, errMoving):
				d.queue.done(j.rel)
				d.queue.awaitAgain(j.rel, wait{touched: true})
			case err != nil && ctx.Err() == nil:
				d.told.once(j.rel, err)
				d.queue.done(j.rel)
			case entry == nil:
				d.queue.done(j.rel)
			default:
				select {
				case d.changes <- change{rel: j.rel, entry: *entry}:
				case <-ctx.Done():
					return
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// lstat looks at a file: fs.ErrNotExist also where it is only there by way of a
// symbolic link.
func lstat(root *os.Root, rel string) (fs.FileInfo, error) {
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		info, err := root.Lstat(rel[:i])
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fs.ErrNotExist
		}
	}
	return root.Lstat(rel)
}

// errMoving: the file changed while it was read.
var errMoving = errors.New("the file is being changed")

// compare says which change of its resource there is to announce of a file; nil if none.
func (d *Directory) compare(ctx context.Context, j job) (*payload.Entry, error) {
	root, err := d.open()
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the next scan finds the file; open has asked for it
	}
	defer root.Close()
	info, err := lstat(root, j.rel)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return nil, err
	}
	loc := d.names.locOf(j.rel)
	if len(loc) > maxLoc {
		if !absent {
			d.told.once(j.rel, fmt.Errorf("no resource: its URI would have more than %d characters", maxLoc))
		}
		return nil, nil
	}
	had, known, err := d.had(ctx, loc)
	switch {
	case err != nil:
		return nil, nil //nolint:nilerr // ctx has ended, or the error was logged
	case absent && known && !j.gone:
		d.askRescan() // which reports whether the disk is there
		return nil, nil
	case absent, !info.Mode().IsRegular():
		d.told.forget(j.rel)
		if !known {
			return nil, nil
		}
		return &payload.Entry{Loc: loc, Change: payload.Deleted}, nil
	case known && !j.touched && same(&had, info):
		return nil, nil
	}
	return d.differs(ctx, root, j.rel, info, had, known)
}

// had asks what the set has of a resource, for as long as it takes.
func (d *Directory) had(ctx context.Context, loc string) (had payload.Entry, known bool, err error) {
	err = d.patiently(ctx, "asking for a resource", func() error {
		had, known, err = d.cfg.State.Resource(ctx, d.cfg.Set, loc)
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.log.Error("the state of a resource cannot be had; the next rescan asks again", "loc", cut(loc), "error", err)
	}
	return had, known, err
}

// differs reads a file, and says what there is to announce of it.
func (d *Directory) differs(
	ctx context.Context, root *os.Root, rel string, info fs.FileInfo, had payload.Entry, known bool,
) (*payload.Entry, error) {
	entry, err := d.read(ctx, root, rel, info)
	if errors.Is(err, fs.ErrNotExist) {
		err = errMoving
	}
	if err != nil {
		return nil, err
	}
	d.told.forget(rel)
	entry.Loc, entry.Change = d.names.locOf(rel), payload.Created
	if known {
		entry.Change = payload.Updated
		if had.Hash == entry.Hash && had.Length == entry.Length && had.LastMod == entry.LastMod && had.Type == entry.Type {
			return nil, nil
		}
	}
	if err := entry.Validate(); err != nil { // it would hold up all others
		return nil, err
	}
	return &entry, nil
}

// lastMod is what the Last-Modified header of a file is (core §7), which has whole seconds.
func lastMod(modified time.Time) string { return modified.UTC().Format("2006-01-02T15:04:05Z") }

// same decides by size and time whether a file is the one in the set. That is not enough for a file
// that was announced within the second of its time: it may have changed after it.
func same(had *payload.Entry, info fs.FileInfo) bool {
	return sameMeta(had, info.Size(), info.ModTime())
}

func sameMeta(had *payload.Entry, size int64, modified time.Time) bool {
	if had.Length != strconv.FormatInt(size, 10) || had.LastMod != lastMod(modified) {
		return false
	}
	since := had.Datetime.Sub(modified.Truncate(time.Second))
	return since < 0 || since >= time.Second
}

// read makes the entry of a file, without its Loc and Change, of one state of it; errMoving if the
// file changed meanwhile.
func read(ctx context.Context, root *os.Root, rel string, info fs.FileInfo) (payload.Entry, error) {
	f, err := root.OpenFile(rel, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return payload.Entry{}, err
	}
	defer f.Close()
	if unchanged, err := isStill(f.Stat, info); !unchanged {
		return payload.Entry{}, err
	}
	hash := sha256.New()
	head, err := sniff(f)
	if err != nil {
		return payload.Entry{}, err
	}
	_, _ = hash.Write(head) // a hash takes everything
	n, err := io.Copy(hash, io.LimitReader(cancellable{ctx, f}, info.Size()-int64(len(head))+1))
	if err != nil {
		return payload.Entry{}, err
	}
	if int64(len(head))+n != info.Size() {
		return payload.Entry{}, errMoving
	}
	if unchanged, err := isStill(func() (fs.FileInfo, error) { return root.Lstat(rel) }, info); !unchanged {
		return payload.Entry{}, err
	}
	return payload.Entry{
		LastMod: lastMod(info.ModTime()), Length: strconv.FormatInt(info.Size(), 10),
		Hash: "sha-256:" + hex.EncodeToString(hash.Sum(nil)), Type: mediaType(rel, head),
	}, nil
}

// isStill reports whether a file is the one that it was, as it was; else why not.
func isStill(look func() (fs.FileInfo, error), was fs.FileInfo) (bool, error) {
	now, err := look()
	if err != nil {
		return false, err
	}
	if !os.SameFile(was, now) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) || !now.Mode().IsRegular() {
		return false, errMoving
	}
	return true, nil
}

// sniffBytes is what http.DetectContentType looks at.
const sniffBytes = 512

func sniff(f io.Reader) ([]byte, error) {
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

// mediaType goes by the name, as the machine's table of types has it, or else by the beginning. It has
// no parameters: the charset of a text is unknown here.
func mediaType(rel string, head []byte) string {
	full := mime.TypeByExtension(strings.ToLower(path.Ext(rel)))
	if full == "" {
		full = http.DetectContentType(head)
	}
	if kind, _, err := mime.ParseMediaType(full); err == nil {
		return kind
	}
	return "application/octet-stream"
}

// cancellable ends a long read when ctx does.
type cancellable struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	r   io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// change is what there is to announce of a file; rel is empty for a resource that
// no file here can be.
type change struct {
	rel   string
	entry payload.Entry
}

// announce puts changes in the journal until ctx ends.
func (d *Directory) announce(ctx context.Context) {
	var events []notifier.Event
	var rels []string
	for {
		events, rels = events[:0], rels[:0]
		take := func(c change) {
			events = append(events, notifier.Event{Entry: c.entry, Sets: []string{d.cfg.Set}})
			rels = append(rels, c.rel)
		}
		select {
		case c := <-d.changes:
			take(c)
		case <-ctx.Done():
			return
		}
		for full := false; !full && len(events) < announceAtOnce; {
			select {
			case c := <-d.changes:
				take(c)
			default:
				full = true
			}
		}
		err := d.patiently(ctx, "announcing", func() error { return d.cfg.Sink.Append(ctx, events) })
		switch {
		case err == nil:
			d.metrics.announced(events)
		case ctx.Err() == nil:
			d.log.Error(
				"changes cannot be announced; the next rescan finds them again", "changes", len(events), "error", err,
			)
		}
		for _, rel := range rels {
			d.queue.done(rel)
		}
	}
}
