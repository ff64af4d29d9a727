package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"carillon/payload"
)

const mediaZip = "application/zip"

// Reason is why a resource is left out of a dump: the values of a metric's label.
type Reason string

// The reasons.
const (
	// Missing: there is no such file, or its server answers 404 or 410.
	Missing Reason = "missing"
	// Deleted: the set does not have it any more.
	Deleted Reason = "deleted"
	// Refused: its server answers with another status than 200, or redirects to another host.
	Refused Reason = "refused"
	// Unreachable: its server cannot be asked, answers 5xx, or breaks off, again and again.
	Unreachable Reason = "unreachable"
	// Differs: the content has not the length or hash of the set, and no newer event explains that.
	Differs Reason = "differs"
	// Changing: the file did not rest while it was read, again and again.
	Changing Reason = "changing"
	// TooLarge: it has more bytes than 1 TiB, or than a package may have where its size is unknown.
	TooLarge Reason = "too_large"
	// Unreadable: the file cannot be read.
	Unreadable Reason = "unreadable"
)

var reasons = []Reason{Missing, Deleted, Refused, Unreachable, Differs, Changing, TooLarge, Unreadable}

// LeftOutError gives the reason why a resource has no content that can be packed.
type LeftOutError struct {
	Reason Reason
	// Text is for the log.
	Text string
	// Again: another attempt may succeed.
	Again bool
}

func (e *LeftOutError) Error() string { return e.Text }

func leftOut(reason Reason, again bool, format string, args ...any) error {
	return &LeftOutError{Reason: reason, Again: again, Text: fmt.Sprintf(format, args...)}
}

// ErrHeld: no content of the set can be had at the moment, such as when its directory is not
// mounted. No dump is made then.
var ErrHeld = errors.New("the content of the set cannot be had at the moment")

// Source opens the content of resources. Its methods may be called from any goroutine.
type Source interface {
	// Open opens what the resource is now. e is what the set has of it. The error is a
	// *LeftOutError, ErrHeld, or that of ctx.
	Open(ctx context.Context, e *payload.Entry) (*Content, error)
}

// Content is what a resource is now.
type Content struct {
	io.ReadCloser
	// Size is how many bytes it has; -1 where that is not known yet.
	Size int64
	// Type, LastMod and Encoding describe it as in an entry. Empty: those of the set.
	Type, LastMod, Encoding string
	// Own: the Source knows that this is the resource as it is now, for any earlier description. A file
	// is; the answer of a server must match its description.
	Own bool
	// Check is called when all was read: an error means that it was not one state. Nil: none.
	Check func() error
}

// heldError is ErrHeld, and how long until the making goes on without what cannot be reached.
type heldError struct {
	wait time.Duration
	error
}

func (e *heldError) Unwrap() error { return e.error }

// shown is a stranger's text in a log line.
func shown(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
