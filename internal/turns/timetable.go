package turns

import (
	"container/heap"
	"time"
)

// Timetable holds values until their time. Its owner guards it with a mutex. The zero value
// is empty.
type Timetable[T any] struct{ entries entries[T] }

// Entry is a value in a Timetable. It belongs to the Timetable that returned it.
type Entry[T any] struct {
	value T
	at    time.Time
	index int // in entries; -1: it was taken out
}

// Add has a value wait until its time.
func (t *Timetable[T]) Add(v T, at time.Time) *Entry[T] {
	e := &Entry[T]{value: v, at: at}
	heap.Push(&t.entries, e)
	return e
}

// Remove takes an entry out, if it is in.
func (t *Timetable[T]) Remove(e *Entry[T]) {
	if e != nil && e.index >= 0 {
		heap.Remove(&t.entries, e.index)
	}
}

// Due takes out the entry that is due first, if its time has come.
func (t *Timetable[T]) Due(now time.Time) (v T, ok bool) {
	if len(t.entries) == 0 || t.entries[0].at.After(now) {
		return v, false
	}
	return heap.Pop(&t.entries).(*Entry[T]).value, true
}

// First returns when the first entry is due; ok is false for an empty table.
func (t *Timetable[T]) First() (at time.Time, ok bool) {
	if len(t.entries) == 0 {
		return time.Time{}, false
	}
	return t.entries[0].at, true
}

// entries is a heap: the entry that is due first leads.
type entries[T any] []*Entry[T]

func (h entries[T]) Len() int           { return len(h) }
func (h entries[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h entries[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *entries[T]) Push(x any) {
	e := x.(*Entry[T])
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop is for package heap.
func (h *entries[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last], e.index = nil, -1
	*h = (*h)[:last]
	return e
}
