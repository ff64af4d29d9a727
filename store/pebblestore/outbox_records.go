package pebblestore

import (
	"crypto/sha256"

	"carillon/destination/republish"
	"carillon/payload"
)

// Keys of an outbox in a Destination's store.
//
//	5d path         what the intake has of a copy, and is to get
//	5e seq          index: the path of a copy that waits, in the order in which they came
//	5f 00           where changes are handed over
//	5f 01 n path    item n of the sealed batch
//	5f 02 path      index: copies whose change was refused
//
// seq and n are big-endian numbers of 8 and 4 bytes; path is text.
const (
	kindOutboxPost  = 0x5d
	kindOutboxQueue = 0x5e
	kindOutboxRest  = 0x5f

	outboxTarget  = 0
	outboxSealed  = 1
	outboxRefused = 2
)

const (
	// outboxStep is how many copies are looked at in one change.
	outboxStep = 256
	// outboxVersion is the version of the records of an outbox.
	outboxVersion = 1
)

// The states of a post as records have them; the numbers are for good.
const (
	postSettled = 0 // nothing is to be handed over
	postWaiting = 1
	postRefused = 2 // until the copy changes, or the outbox is opened
)

// unknownDigest stands for unknown content: every other digest differs from it.
var unknownDigest = [sha256.Size]byte{0: 0xff}

// post is what the intake has of one copy, and is to get.
type post struct {
	path string
	// has: the intake's set has the copy, and handed is the digest of its last handed-over state; zero
	// where the set lacks it.
	has    bool
	handed [sha256.Size]byte
	// flying: it is in the sealed batch, and flight is the digest of its state there.
	flying bool
	flight [sha256.Size]byte

	state  byte
	seq    uint64        // of what waits, in the queue
	entry  payload.Entry // the waiting or refused state
	reason string        // why it was refused

	touched bool // it is to be written
	was     struct {
		seq     uint64
		refused bool
	}
}

func (e *encoder) flag(is bool) {
	if is {
		e.octet(1)
	} else {
		e.octet(0)
	}
}

func encodePost(p *post) []byte {
	record := newEncoder(outboxVersion, 256)
	record.flag(p.has)
	record.raw(p.handed[:])
	record.flag(p.flying)
	if p.flying {
		record.raw(p.flight[:])
	}
	if record.octet(p.state); p.state != postSettled {
		record.number(p.seq)
		record.words(string(p.entry.Change))
		encodeEntry(&record, &p.entry)
		record.words(p.reason)
	}
	return record
}

func decodePost(key, record []byte) (post, error) {
	d := newDecoder(record, outboxVersion)
	p := post{path: string(key[1:]), has: d.octet() != 0}
	d.array(p.handed[:])
	if p.flying = d.octet() != 0; p.flying {
		d.array(p.flight[:])
	}
	if p.state = d.octet(); p.state > postRefused {
		d.fail("a state of no known kind")
	}
	if p.state != postSettled {
		p.seq = d.number()
		p.entry.Change = payload.Change(d.words())
		decodeEntry(d, &p.entry)
		p.reason = d.words()
	}
	return p, d.done()
}

func encodeItem(e *payload.Entry) []byte {
	record := newEncoder(outboxVersion, 256)
	record.words(string(e.Change))
	encodeEntry(&record, e)
	return record
}

// decodeItem reads an item of the sealed batch. Its path is in the key, also with an error.
func decodeItem(key, record []byte) (item republish.Item, err error) {
	const beforePath = 6
	d := newDecoder(record, outboxVersion)
	if len(key) > beforePath {
		item.Path = string(key[beforePath:])
	} else {
		d.fail("there is no path")
	}
	item.Entry.Change = payload.Change(d.words())
	decodeEntry(d, &item.Entry)
	return item, d.done()
}

func encodeEntry(record *encoder, e *payload.Entry) {
	for _, s := range []string{e.LastMod, e.Hash, e.Length, e.Type} {
		record.words(s)
	}
	record.number(uint64(len(e.Links)))
	for i := range e.Links {
		l := &e.Links[i]
		for _, s := range []string{l.Rel, l.Href, l.Modified, l.Hash, l.Length, l.Type, l.Encoding} {
			record.words(s)
		}
	}
}

func decodeEntry(d *decoder, e *payload.Entry) {
	for _, s := range []*string{&e.LastMod, &e.Hash, &e.Length, &e.Type} {
		*s = d.words()
	}
	for range d.uintMax(payload.MaxLinks) {
		var l payload.Link
		for _, s := range []*string{&l.Rel, &l.Href, &l.Modified, &l.Hash, &l.Length, &l.Type, &l.Encoding} {
			*s = d.words()
		}
		e.Links = append(e.Links, l)
	}
}
