package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
	"carillon/destination/republish"
	"carillon/payload"
)

// land ends the flight.
func (p *post) land() { p.flying, p.flight = false, [sha256.Size]byte{} }

// settle records what the intake said of an item.
func (p *post) settle(item *republish.Item, refused string) {
	if refused == "" {
		p.has = item.Entry.Change != payload.Deleted
		p.handed = digestOf(&item.Entry)
		return
	}
	if p.state == postSettled { // else there is a later version
		p.state, p.entry, p.reason = postRefused, item.Entry, refused
	}
}

// notes are changes of posts within one change of the store. Each post is read once, and written at
// the end.
type notes struct {
	m     *Mirrored
	posts map[string]*post
	woken bool
}

// copySaved records that a copy was saved; old is nil where it was not known.
func (n *notes) copySaved(old, c *mirror.Copy) error {
	if !n.m.outbox.open {
		return nil
	}
	if old != nil && old.Path != c.Path {
		if err := n.copyGone(old); err != nil {
			return err
		}
	}
	switch {
	case c.File == nil || c.Path == "":
		return nil // it is not known
	case c.State != mirror.Whole && (old == nil || old.File == nil || old.File.SHA256 == c.File.SHA256):
		return nil // the file is what it was, as far as is known
	}
	return n.note(c.Path, republish.EntryOf(c))
}

// copyGone records that a copy was forgotten.
func (n *notes) copyGone(old *mirror.Copy) error {
	if !n.m.outbox.open || old == nil || old.Path == "" {
		return nil
	}
	return n.note(old.Path, republish.DeletedOf(old))
}

// foundCopy records a copy that was there before the outbox was opened.
func (n *notes) foundCopy(c *mirror.Copy) error {
	if c.File == nil || c.Path == "" {
		return nil
	}
	p, err := n.post(c.Path)
	if err != nil || c.State != mirror.Whole && (p.has || p.flying || p.state != postSettled) {
		return err
	}
	return n.note(c.Path, republish.EntryOf(c))
}

// note has an entry wait if it is not what the intake has, or gets.
func (n *notes) note(at string, e payload.Entry) error {
	p, err := n.post(at)
	if err != nil {
		return err
	}
	d, known := digestOf(&e), p.handed
	switch {
	case p.flying:
		known = p.flight
	case p.state == postRefused && d == digestOf(&p.entry):
		return nil
	}
	if d != known {
		p.entry, p.reason = e, ""
		n.queue(p)
	} else if p.state != postSettled {
		p.state, p.entry, p.reason, p.touched = postSettled, payload.Entry{}, "", true
	}
	return nil
}

// queue has the entry of a post wait: at its place, if it did.
func (n *notes) queue(p *post) {
	if p.state != postWaiting {
		p.seq = n.m.outbox.next
		n.m.outbox.next++
	}
	p.state, p.touched, n.woken = postWaiting, true, true
}

// fly moves what waits into the sealed batch, and returns its record. It returns nil for a deletion
// of what the intake's set does not have.
func (n *notes) fly(p *post) []byte {
	e := p.entry
	p.state, p.entry, p.touched = postSettled, payload.Entry{}, true
	switch {
	case e.Change == payload.Deleted && !p.has:
		p.handed = [sha256.Size]byte{}
		return nil
	case e.Change == payload.Deleted:
	case p.has:
		e.Change = payload.Updated
	default:
		e.Change = payload.Created
	}
	p.flying, p.flight = true, digestOf(&e)
	return encodeItem(&e)
}

// post reads one, once.
func (n *notes) post(at string) (*post, error) {
	if p := n.posts[at]; p != nil {
		return p, nil
	}
	key := mirrorKey(kindOutboxPost, at)
	record, err := n.m.engine.get(key)
	if err != nil {
		return nil, err
	}
	p := &post{path: at}
	if record != nil {
		read, err := decodePost(key, record)
		if err != nil {
			n.m.engine.damaged(key, err)
			read = post{path: at, has: true, handed: unknownDigest}
		}
		*p = read
	}
	p.was.refused = p.state == postRefused
	if p.state == postWaiting {
		p.was.seq = p.seq
	}
	if n.posts == nil {
		n.posts = map[string]*post{}
	}
	n.posts[at] = p
	return p, nil
}

// write puts what was noted into the batch.
func (n *notes) write(b *pebble.Batch) (err error) {
	for at, p := range n.posts {
		if !p.touched {
			continue
		}
		seq := uint64(0)
		if p.state == postWaiting {
			seq = p.seq
		}
		if p.was.seq != 0 && p.was.seq != seq {
			err = errors.Join(err, b.Delete(outboxQueueKey(p.was.seq), nil))
		}
		if seq != 0 && seq != p.was.seq {
			err = errors.Join(err, b.Set(outboxQueueKey(seq), []byte(at), nil))
		}
		if refused := p.state == postRefused; refused != p.was.refused {
			if key := outboxRefusedKey(at); refused {
				err = errors.Join(err, b.Set(key, nil, nil))
			} else {
				err = errors.Join(err, b.Delete(key, nil))
			}
		}
		if key := mirrorKey(kindOutboxPost, at); p.has || p.flying || p.state != postSettled {
			err = errors.Join(err, b.Set(key, encodePost(p), nil))
		} else {
			err = errors.Join(err, b.Delete(key, nil))
		}
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// wake wakes the readers that wait for changes.
func (n *notes) wake() {
	if !n.woken {
		return
	}
	select {
	case n.m.outbox.wake <- struct{}{}:
	default:
	}
}

// digestOf is zero for a deletion, and else by everything but Loc, Change and Datetime.
func digestOf(e *payload.Entry) (sum [sha256.Size]byte) {
	if e.Change == payload.Deleted {
		return sum
	}
	var record encoder
	encodeEntry(&record, e)
	return sha256.Sum256(record)
}

func sameSeq(key []byte, seq uint64) bool { return string(key) == string(outboxQueueKey(seq)) }

func outboxQueueKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kindOutboxQueue}, seq)
}

func outboxSealedKey(n uint32, at string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kindOutboxRest, outboxSealed}, n), at...)
}

func outboxRefusedKey(at string) []byte {
	return append([]byte{kindOutboxRest, outboxRefused}, at...)
}
