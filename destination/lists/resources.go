package lists

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"carillon/payload"
)

// Resources visits every resource that the Resource List at uri has, or the lists of
// the index there (core §10). A plain sitemap is read too: it tells no At. Entries
// come as they stand; nothing of them is judged, but that each has a loc. An error of
// visit ends the reading, and is returned.
//
// A document is put down before the first of its entries is visited; of an index the
// lists before one that cannot be read have been visited.
func (c *Client) Resources(ctx context.Context, uri string, visit func(payload.Entry) error) (Snapshot, error) {
	r, at, err := c.begin(uri)
	if err != nil {
		return Snapshot{}, err
	}
	s := &snapshot{reading: r, visit: visit}
	err = s.read(ctx, at)
	s.Documents = s.documents
	return s.Snapshot, err
}

// snapshot is one reading of resources.
type snapshot struct {
	*reading
	Snapshot
	visit func(payload.Entry) error
	// unknown: one of the documents does not say when it was taken.
	unknown bool
}

func (s *snapshot) read(ctx context.Context, at *url.URL) error {
	d, err := s.open(ctx, at, payload.CapResourceList, time.Time{}, nil)
	if err != nil {
		return err
	}
	defer d.close()
	if !d.index {
		s.At, s.Completed = d.head.AtTime, d.head.CompletedTime
		return s.take(ctx, d)
	}
	for _, p := range d.parts {
		if p.loc == "" {
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
	// The lists together are the set at one moment (core §10.2). What one of them may lack
	// is what changed since its own, so the earliest counts.
	if told := d.head.AtTime; !told.IsZero() && (s.At.IsZero() || told.Before(s.At)) {
		s.At, s.unknown = told, false
	}
	if s.unknown {
		s.At = time.Time{}
	}
	s.Completed = later(s.Completed, d.head.CompletedTime)
	return nil
}

func (s *snapshot) part(ctx context.Context, at *url.URL, told part, ix *document) error {
	d, err := s.open(ctx, at, payload.CapResourceList, time.Time{}, nil)
	if err != nil {
		return err
	}
	defer d.close()
	if d.index {
		return fmt.Errorf("%w: %s is an index within an index", ErrLoop, d.uri)
	}
	when := d.head.AtTime
	if when.IsZero() {
		when = told.at
	}
	if !told.at.IsZero() && when.After(told.at) {
		s.c.warn(ix.uri, payload.Violation{Clause: "core §10.2", Message: "a list was replaced since the index was made: " +
			"together they may not be the set at one moment"})
	}
	switch {
	case when.IsZero():
		s.unknown = s.unknown || ix.head.AtTime.IsZero()
	case s.At.IsZero() || when.Before(s.At):
		s.At = when
	}
	s.Completed = later(s.Completed, d.head.CompletedTime)
	return s.take(ctx, d)
}

func (s *snapshot) take(ctx context.Context, d *document) error {
	return d.each(ctx, func(_ int, e payload.Entry) error {
		if err := s.visit(e); err != nil {
			return err
		}
		s.Entries++
		return nil
	})
}
