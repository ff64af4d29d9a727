package republish

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"

	"carillon/destination/mirror"
	"carillon/payload"
)

// ErrMoved is the error of Outbox.Open for another base with the same intake, wrapped.
var ErrMoved = errors.New("the copies are published at other addresses")

// Item is one change to hand over.
type Item struct {
	// Path is that of the copy below the mirror's directory.
	Path string
	// Entry is the change, without Loc and Datetime.
	Entry payload.Entry
}

// Target is where changes are handed over, and at which addresses the copies are.
type Target struct{ Intake, Base string }

// Outbox is the durable record of the intake's state and of its pending changes. Its engine writes to
// it within mirror.Catalog.Save, from the first Open on: a Save of a copy that is mirror.Whole, or
// that forgets one, has the change wait in the same step. A method's changes are durable when it
// returns nil, and whole or not there. Next and Settle are called by one goroutine.
type Outbox interface {
	// Open sets where changes are handed over. With another Intake than before it forgets the handed-over
	// states, so that everything is to be collected (anew). It returns ErrMoved for another Base alone.
	// Refused changes wait again.
	Open(ctx context.Context, to Target) (anew bool, err error)

	// Collect has every copy wait that the intake does not have as it is. After it returned nil
	// once it does nothing until Open forgets. It may be broken off and called again.
	Collect(ctx context.Context) error

	// Next returns the sealed batch. Without one it seals waiting changes, in the order in which they
	// came: at most limit items of about bytes in all. An empty batch: nothing waits.
	Next(ctx context.Context, limit, bytes int) ([]Item, error)

	// Settle records that the intake has the first n items of the batch, or with a reason that it
	// refused them. The rest of the batch stays sealed.
	Settle(ctx context.Context, n int, refused string) error

	// Waiting counts what the intake is to get.
	Waiting(ctx context.Context) (int, error)

	// Changed receives after something began to wait.
	Changed() <-chan struct{}
}

// Standing counts the copies by what the intake has of them.
type Counts struct {
	Published, Waiting, Refused int
}

// EntryOf returns the published entry of a copy with a File, without Loc and Change. The Source's
// description of a copy that is not mirror.Whole is about another version: only the origin counts.
func EntryOf(c *mirror.Copy) payload.Entry {
	e := payload.Entry{
		LastMod: c.File.ModTime.UTC().Format("2006-01-02T15:04:05Z"), // as precise as HTTP
		Hash:    "sha-256:" + hex.EncodeToString(c.File.SHA256[:]),
		Length:  strconv.FormatInt(c.File.Size, 10),
	}
	if c.State != mirror.Whole {
		e.Links = origin(c)
		return e
	}
	via, other := c.Via()
	if via.Href != "" {
		e.Links = []payload.Link{via}
	}
	e.Links = append(e.Links, other...)
	// A file in a content coding is served without that header, so its type is another one.
	if c.File.Encoding == "" && c.Described.Encoding == "" {
		e.Type = c.Described.Type
	}
	probe := payload.Entry{Loc: "http://localhost/", Change: payload.Updated, Type: e.Type}
	if probe.Validate() != nil {
		e.Type = ""
	}
	return e
}

// DeletedOf returns what is published of a copy that is no more.
func DeletedOf(c *mirror.Copy) payload.Entry {
	return payload.Entry{Change: payload.Deleted, Links: origin(c)}
}

// origin is the link to the origin, without the description of its content.
func origin(c *mirror.Copy) []payload.Link {
	via, _ := c.Via()
	if via.Href == "" {
		return nil
	}
	return []payload.Link{{Rel: via.Rel, Href: via.Href}}
}
