package dispatch

import "container/heap"

// dueHeap holds the waiting entries, the one that is due first on top. Ended
// entries stay until they are due.
type dueHeap []dueEntry

type dueEntry struct {
	at int64
	e  *entry
}

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueEntry)) }

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return last
}

// drop takes an entry out of the heap. mu is held.
func (h *dueHeap) drop(e *entry) {
	for i := range *h {
		if (*h)[i].e == e {
			heap.Remove(h, i)
			return
		}
	}
}

// earliest returns when the first entry is due; 0 without one.
func (h dueHeap) earliest() int64 {
	if len(h) == 0 {
		return 0
	}
	return h[0].at
}
