package hub

import (
	"context"
	"time"

	"carillon/delivery"
)

// memoryWish is what somebody wants to read.
type memoryWish struct {
	topic string // its key
	// from is a whole microsecond: what is finer is in no document of ours. Zero: the
	// oldest that there is.
	from time.Time
}

// asked is the memory as one reading sees it: it counts what that costs. It belongs to one goroutine.
type asked struct {
	Memory
	wish      memoryWish
	reading   *reading
	summaries int
	notes     int
	bytes     int64
}

// Summaries counts them.
func (a *asked) Summaries(ctx context.Context, topic string, before delivery.Seq, limit int) ([]delivery.Summary, error) {
	found, err := a.Memory.Summaries(ctx, topic, before, limit)
	a.summaries += len(found)
	return found, err
}

// Read counts it.
func (a *asked) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	a.notes++
	n, err := a.Memory.Read(ctx, topic, from)
	if err == nil {
		a.bytes += int64(len(n.Body))
	}
	return n, err
}

// cost is how many requests the reading stands for besides itself.
func (a *asked) cost() int {
	return a.summaries/summariesRequest + a.notes/notesRequest + int(a.bytes/bytesRequest)
}
