package operator

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// smallest keeps the first few of many, in an order. One that is added twice may be there
// twice.
type smallest[T any] struct {
	most    int
	compare func(a, b T) int
	kept    []T
	last    *T // nothing behind this is kept; nil: not known yet
}

func newSmallest[T any](most int, compare func(a, b T) int) *smallest[T] {
	return &smallest[T]{most: most, compare: compare}
}

// add takes one in, unless enough are before it.
func (s *smallest[T]) add(v T) bool {
	if s.last != nil && s.compare(v, *s.last) > 0 {
		return false
	}
	s.kept = append(s.kept, v)
	if len(s.kept) >= 2*s.most+64 {
		s.cut()
	}
	return true
}

// cut forgets all but the first, each once.
func (s *smallest[T]) cut() {
	slices.SortStableFunc(s.kept, s.compare)
	s.kept = slices.CompactFunc(s.kept, func(a, b T) bool { return s.compare(a, b) == 0 })
	if len(s.kept) >= s.most {
		clear(s.kept[s.most:])
		s.kept = s.kept[:s.most]
		last := s.kept[s.most-1]
		s.last = &last
	}
}

// sorted returns the first, in their order, each once.
func (s *smallest[T]) sorted() []T {
	s.cut()
	return s.kept
}

// bounded is how many an answer holds.
func bounded(limit int) int { return min(max(cmp.Or(limit, DefaultLimit), 1), MaxLimit) }

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
