package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// ids are those of the first span of a trace.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idsOf makes them from the ID of a notification or of a request: the same in every process,
// before and after a restart. It is a digest, as samplers take a trace's ID for random, and
// a UUID of version 7 begins with the time. A trace has the ID of no other by chance
// more often than random ones do.
func idsOf(id uuid.UUID) (of ids) {
	sum := sha256.Sum256(append([]byte("carillon trace "), id[:]...))
	copy(of.trace[:], sum[:16])
	copy(of.span[:], sum[16:24])
	return of
}

// parent returns a context in which spans begin as children of the first span of a trace. That
// one may have been another process's.
func (of ids) parent() context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: of.trace, SpanID: of.span, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// another is of the same trace, which has no first span then.
func (of ids) another() ids {
	of.span = newSpanID()
	return of
}

type idsKey struct{}

// root returns a context in which the first span of the trace begins.
func (of ids) root() context.Context { return context.WithValue(context.Background(), idsKey{}, of) }

// generator gives the IDs of new spans: those of a context that root has made, or random
// ones.
type generator struct{}

// NewIDs are those of a span without a parent.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if of, ok := ctx.Value(idsKey{}).(ids); ok {
		return of.trace, of.span
	}
	var random trace.TraceID
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64()|1) // all zero is no ID
	return random, newSpanID()
}

// NewSpanID is that of a span with a parent.
func (generator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newSpanID() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
