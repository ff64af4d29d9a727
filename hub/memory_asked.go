package hub

import (
	"context"
	"time"

	"carillon/delivery"
	"carillon/internal/readings"
)

// memoryWish is the part of the memory that a request asks for.
type memoryWish struct {
	topic string // its key
	// from is a whole microsecond: our documents have nothing finer. Zero: from the oldest notification
	// on.
	from time.Time
}

const (
	// readingsShare is the part of the memory's room for bodies that one client may hold, if that
	// is more than one body.
	readingsShare = 4
	// undisturbed is how long a reading may take before it can be cut off for another.
	undisturbed = 10 * time.Second
)

// The cost of a reading besides the request itself, in requests: each stands for about 10 ms.
const (
	// summariesRequest is how many summaries of the log are looked at for one.
	summariesRequest = 1024
	// notesRequest is how many notifications are read for one.
	notesRequest = 512
	// bytesRequest is how many bytes of them are read for one.
	bytesRequest = 1 << 20
)

// asked is the memory as one reading sees it: it counts what that costs. It belongs to one goroutine.
type asked struct {
	Memory
	wish      memoryWish
	reading   *readings.Reading
	summaries int
	notes     int
	bytes     int64
}

// Summaries counts them.
func (a *asked) Summaries(
	ctx context.Context, topic string, before delivery.Seq, limit int,
) ([]delivery.Summary, error) {
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
