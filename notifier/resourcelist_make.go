package notifier

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"carillon/notifier/moments"
	"carillon/payload"
)

// makeList makes a Resource List of what the set has now, and puts its files where they will
// be served from.
func (l *resourceLists) makeList(ctx context.Context, now time.Time) (_ *generation, err error) {
	l.begins()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // lets go what was not read
	at, all, err := l.ch.n.cfg.Journal.Snapshot(ctx, l.ch.set, now)
	if err == nil {
		due, ever := l.ch.archives.resourcesIn(now)
		w := &listWriter{
			lists: l,
			g:     &generation{Version: manifestKnown, At: at, Lasting: ever && due <= 0, Linked: l.ch.archives != nil},
		}
		if err = w.begin(); err == nil {
			err = w.write(all)
		}
		if err = errors.Join(err, w.close()); err == nil {
			err = w.finish()
		}
		if err == nil {
			w.g.since = time.Now()
			return w.g, nil
		}
		err = errors.Join(err, w.g.remove())
	}
	l.mu.Lock()
	l.asked = true // it still is
	l.mu.Unlock()
	return nil, err
}

// listWriter writes a generation. The entries of a part go to a file of their own first,
// since what stands before them reports when the part was completed.
type listWriter struct {
	lists   *resourceLists
	g       *generation
	entries *os.File
	out     *bufio.Writer // to entries
	scratch []byte
	room    int // what the entries of a part may have, bytes
	size    int
	count   int
	indexed bool // there will be an Index
}

const entriesBuffer = 256 << 10

func (w *listWriter) begin() error {
	var err error
	w.g.dir, err = moments.Begin(filepath.Dir(w.lists.ch.n.cfg.ResourceListDir), w.lists.dir, w.g.At)
	if err == nil {
		w.entries, err = os.OpenFile(filepath.Join(w.g.dir, "entries"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return err
	}
	w.out = bufio.NewWriterSize(w.entries, entriesBuffer)
	head, err := w.head(true, w.g.At)
	w.room = w.lists.ch.n.cfg.ResourceListBytes - len(head) - len(payload.AppendTail(nil, false))
	return err
}

// head is the beginning of a part. Its length does not depend on the time.
func (w *listWriter) head(indexed bool, completed time.Time) ([]byte, error) {
	h := payload.Head{
		Capability: payload.CapResourceList, At: w.g.At, Completed: completed,
		Links: w.archives(),
	}
	if indexed {
		h.Links = append(h.Links, payload.Link{Rel: "index", Href: w.lists.partURL(w.g, 0)})
	}
	return payload.AppendHead(nil, h)
}

// archives are the links to the Capability List and to the archive, if there will be one.
func (w *listWriter) archives() []payload.Link {
	links := []payload.Link{{Rel: payload.RelUp, Href: w.lists.ch.up}}
	if a := w.lists.ch.archives; a != nil {
		links = append(links, payload.Link{Rel: payload.RelArchives, Href: a.resources.url()})
	}
	return links
}

func (w *listWriter) write(all func(func(payload.Entry, error) bool)) error {
	for e, err := range all {
		if err != nil {
			return err
		}
		if w.scratch, err = payload.AppendResource(w.scratch[:0], &e); err != nil {
			return fmt.Errorf("%s: %w", shown(e.Loc), err)
		}
		if w.count == w.lists.ch.n.cfg.ResourceListEntries || w.size+len(w.scratch) > w.room && w.count > 0 {
			w.indexed = true
			if err := w.endPart(); err != nil {
				return err
			}
		}
		if _, err := w.out.Write(w.scratch); err != nil {
			return err
		}
		w.size += len(w.scratch)
		w.count++
	}
	return w.endPart()
}

// completed is what time it is, and never before at.
func (w *listWriter) completed() time.Time {
	now := w.lists.ch.n.clock.Now().UTC().Truncate(time.Microsecond)
	if now.Before(w.g.At) {
		return w.g.At
	}
	return now
}

// endPart completes a part of the entries that were gathered.
func (w *listWriter) endPart() error {
	if len(w.g.Parts) == payload.MaxEntries {
		return fmt.Errorf(
			"the set has more than %d Resource Lists, which is what an Index can name", payload.MaxEntries,
		)
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := w.entries.Seek(0, io.SeekStart); err != nil {
		return err
	}
	w.g.Completed = w.completed()
	head, err := w.head(w.indexed, w.g.Completed)
	if err != nil {
		return err
	}
	stored := storedList{Size: int64(len(head) + w.size), Entries: w.count}
	tail := payload.AppendTail(nil, false)
	stored.Size += int64(len(tail))
	w.g.Parts = append(w.g.Parts, stored)
	last := &w.g.Parts[len(w.g.Parts)-1]
	last.Packed, err = pack(w.g.file(len(w.g.Parts)), func(to io.Writer) error {
		if _, err := to.Write(head); err != nil {
			return err
		}
		if _, err := io.Copy(to, w.entries); err != nil {
			return err
		}
		_, err := to.Write(tail)
		return err
	})
	if err != nil {
		return err
	}
	w.size, w.count = 0, 0
	if _, err := w.entries.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return w.entries.Truncate(0)
}

// index writes the Index (core §10.2).
func (w *listWriter) index() (err error) {
	doc, err := payload.AppendHead(nil, payload.Head{
		Index: true, Capability: payload.CapResourceList, At: w.g.At, Completed: w.g.Completed,
		Links: w.archives(),
	})
	for n := 1; n <= len(w.g.Parts) && err == nil; n++ {
		doc, err = payload.AppendPart(doc, &payload.Part{Loc: w.lists.partURL(w.g, n), At: w.g.At})
	}
	if err != nil {
		return err
	}
	doc = payload.AppendTail(doc, true)
	w.g.Index = &storedList{Size: int64(len(doc)), Entries: len(w.g.Parts)}
	w.g.Index.Packed, err = pack(w.g.file(0), func(to io.Writer) error {
		_, err := to.Write(doc)
		return err
	})
	return err
}

// close lets go of the file that the entries were gathered in.
func (w *listWriter) close() error {
	if w.entries == nil {
		return nil
	}
	return errors.Join(w.entries.Close(), os.Remove(w.entries.Name()))
}

// finish puts the whole in its place, once everything is durable.
func (w *listWriter) finish() error {
	if w.indexed {
		if err := w.index(); err != nil {
			return err
		}
	}
	if err := w.g.save(); err != nil {
		return err
	}
	whole, err := moments.Finish(w.g.dir)
	if err == nil {
		w.g.dir = whole
	}
	return err
}
