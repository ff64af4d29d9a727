package lists

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"carillon/payload"
)

// Resources visits every resource that the Resource List at uri has, or the lists of the index there
// (core §10). A plain sitemap is read too: it has no At. Entries come as they stand; the only check is
// that each has a loc. An error of visit ends the reading, and is returned.
//
// A document is put down before the first of its entries is visited; of an index the lists before one
// that cannot be read have been visited. The lists of an index may be made anew while they are read.
// An entry that moves from one to another might then be missed: that is an error, after all were
// visited.
func (c *Client) Resources(ctx context.Context, uri string,
	visit func(payload.Entry) error,
) (Snapshot, error) {
	r, at, err := c.begin(uri)
	if err != nil {
		return Snapshot{}, err
	}
	s := &snapshot{reading: r, want: payload.CapResourceList}
	s.visit = func(ctx context.Context, d *document, _ time.Time) (int, error) {
		named := 0
		err := d.each(ctx, func(_ int, e payload.Entry) error {
			if err := visit(e); err != nil {
				return err
			}
			named++
			return nil
		})
		return named, err
	}
	err = s.read(ctx, at)
	s.Documents = s.documents
	return s.Snapshot, err
}

// snapshot is one reading of resources, or of the packages that have them.
type snapshot struct {
	*reading
	Snapshot
	want string // the capability of its documents
	// visit visits what has a loc in a document of a moment, and returns how many it visited.
	visit func(ctx context.Context, d *document, at time.Time) (named int, err error)
	// unknown: one of the documents does not say when it was taken.
	unknown bool
	// dated are the documents that say themselves when they were taken, in the order in
	// which they were read; mixed: they do not all say the same.
	dated []dated
	mixed bool
}

// dated is a document and the moment that it names.
type dated struct {
	uri *url.URL
	at  time.Time
}

func (s *snapshot) read(ctx context.Context, at *url.URL) error {
	d, err := s.open(ctx, at, s.want, time.Time{}, nil)
	if err != nil {
		return err
	}
	defer d.close()
	if !d.index {
		s.At, s.Completed = d.moment(d.head.AtTime), d.head.CompletedTime
		return s.readEntries(ctx, d, d.head.AtTime)
	}
	s.dates(at, d)
	for _, p := range d.parts {
		if p.loc == "" {
			s.Unnamed++
			continue
		}
		next, err := s.partAt(d, at, p)
		if err != nil {
			return err
		}
		if s.seen[next.String()] {
			continue
		}
		if err := s.part(ctx, next, p, d); err != nil {
			return err
		}
	}
	if err := s.still(ctx); err != nil {
		return err
	}
	// The lists together are the set at one moment (core §10.2). One of them may lack the changes since
	// its own moment, so the earliest counts.
	if listed := d.head.AtTime; !listed.IsZero() && (s.At.IsZero() || listed.Before(s.At)) {
		s.At, s.unknown = listed, false
	}
	if s.unknown {
		s.At = time.Time{}
	}
	s.Completed = later(s.Completed, d.head.CompletedTime)
	return nil
}

func (s *snapshot) part(ctx context.Context, at *url.URL, listed part, ix *document) error {
	d, err := s.open(ctx, at, s.want, time.Time{}, nil)
	if err != nil {
		return err
	}
	defer d.close()
	if d.index {
		return fmt.Errorf("%w: %s is an index within an index", ErrLoop, d.uri)
	}
	s.dates(at, d)
	dated := cmp.Or(d.head.AtTime, listed.at)
	when := d.moment(dated)
	if !listed.at.IsZero() && when.After(listed.at) {
		s.c.warn(ix.uri, payload.Violation{
			Clause: "core §10.2",
			Message: "a list was replaced since the index was made: " +
				"together they may not be the set at one moment",
		})
	}
	switch {
	case when.IsZero():
		s.unknown = s.unknown || ix.head.AtTime.IsZero()
	case s.At.IsZero() || when.Before(s.At):
		s.At = when
	}
	s.Completed = later(s.Completed, d.head.CompletedTime)
	return s.readEntries(ctx, d, cmp.Or(dated, ix.head.AtTime))
}

// moment returns the earliest moment of a document, whose index gives listed, and of its packages: one
// of them may lack the changes since its own. It is zero where one is unknown.
func (d *document) moment(listed time.Time) time.Time {
	if d.index || !d.table {
		return listed
	}
	earliest := listed
	for _, p := range d.parts {
		when := cmp.Or(p.at, listed)
		if when.IsZero() {
			return time.Time{}
		}
		if earliest.IsZero() || when.Before(earliest) {
			earliest = when
		}
	}
	return earliest
}

// dates notes of what moment a document says that it is.
func (s *snapshot) dates(at *url.URL, d *document) {
	when := d.head.AtTime
	if when.IsZero() {
		return
	}
	s.mixed = s.mixed || len(s.dated) > 0 && !s.dated[0].at.Equal(when)
	s.dated = append(s.dated, dated{at, when})
}

// still asks for the heads of the documents once more if they are of several moments. That
// is as the specification has it where the taking of them lasted (core §10.2), and is not if
// one of them was replaced since it was read.
func (s *snapshot) still(ctx context.Context) error {
	if !s.mixed {
		return nil
	}
	for _, was := range s.dated {
		now, err := s.momentOf(ctx, was.uri)
		if err != nil {
			return err
		}
		if !now.IsZero() && !now.Equal(was.at) {
			return fmt.Errorf("%w: the documents of the %s were made anew while they were read: %s is of %s now, and was of %s",
				ErrAnswer, s.want, was.uri, payload.FormatDatetime(now),
				payload.FormatDatetime(was.at))
		}
	}
	return nil
}

// momentOf reads no more of a document than its head, and returns when it was taken; zero if the head
// lacks that.
func (s *snapshot) momentOf(ctx context.Context, at *url.URL) (time.Time, error) {
	_, head, err := s.head(ctx, at)
	return head.AtTime, err
}

// Moment returns of what moment a document of resources says that it is (core §10.1: at,
// completed); zero for what it does not say. It reads no more than the head of the document.
func (c *Client) Moment(ctx context.Context, uri string) (at, completed time.Time, err error) {
	r, to, err := c.begin(uri)
	if err != nil {
		return at, completed, err
	}
	_, head, err := r.head(ctx, to)
	return head.AtTime, head.CompletedTime, err
}

// head reads no more of a document than what it says of itself before its first entry.
func (r *reading) head(ctx context.Context, at *url.URL) (*url.URL, payload.Header, error) {
	a, err := r.get(ctx, at, nil)
	if err != nil {
		return nil, payload.Header{}, err
	}
	defer a.close()
	head, err := payload.NewReader(a.body, payload.Limits{Bytes: r.c.cfg.Limits.Bytes}).Header()
	if err != nil {
		return nil, payload.Header{}, fmt.Errorf("reading %s: %w", a.uri, err)
	}
	return a.uri, head, nil
}

func (s *snapshot) readEntries(ctx context.Context, d *document, at time.Time) error {
	named, err := s.visit(ctx, d, at)
	s.Entries += named
	if err == nil {
		s.Unnamed += d.entries - named
	}
	return err
}
