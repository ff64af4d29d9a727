package dump

import (
	"context"
	"net/http"
	"time"

	"carillon/payload"
)

// Generation is a generation.
type Generation = generation

// ErrNoResources is the error of a set without resources.
var ErrNoResources = errNoResources

// SetPause sets the time before the second attempt to get content.
func (d *Dumps) SetPause(pause time.Duration) { d.pause = pause }

// OnFinished has f called with each generation that is made. It must be called before Run.
func (d *Dumps) OnFinished(f func(*Generation)) { d.finished = f }

// Generations returns the whole generations of a kind of a set, oldest first.
func (d *Dumps) Generations(name string, kind Kind) []*Generation { return d.sets[name].of(kind) }

// OpenBy opens a resource by GET.
func OpenBy(ctx context.Context, transport http.RoundTripper, loc string) (*Content, error) {
	return newFetcher(&Config{Transport: transport}).Open(ctx, &payload.Entry{Loc: loc})
}

// ZipMember is one member of a ZIP of any size, whose content is never written.
type ZipMember struct {
	Name         string
	Size, Packed int64
	Offset       int64
}

// ZipEnds returns the local headers of stored members, and what follows the last of them, which ends
// at end.
func ZipEnds(members []ZipMember, end int64) (locals [][]byte, tail []byte) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for _, one := range members {
		m := member{name: one.Name, size: one.Size, packed: one.Packed, offset: one.Offset}
		locals = append(locals, m.appendLocal(nil, at))
		tail = m.appendCentral(tail, at, 0)
	}
	return locals, appendEnd(tail, len(members), end, int64(len(tail)))
}
