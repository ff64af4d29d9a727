package pebblestore

import (
	"carillon/destination/republish"
	"carillon/payload"
)

func (e *encoder) flag(is bool) {
	if is {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func encodePost(p *post) []byte {
	record := newEncoder(outboxVersion, 256)
	record.flag(p.has)
	record.bytes(p.handed[:])
	record.flag(p.flying)
	if p.flying {
		record.bytes(p.flight[:])
	}
	if record.byte(p.state); p.state != postSettled {
		record.uint(p.seq)
		record.string(string(p.entry.Change))
		encodeEntry(&record, &p.entry)
		record.string(p.reason)
	}
	return record
}

func decodePost(key, record []byte) (post, error) {
	d := newDecoder(record, outboxVersion)
	p := post{path: string(key[1:]), has: d.byte() != 0}
	d.array(p.handed[:])
	if p.flying = d.byte() != 0; p.flying {
		d.array(p.flight[:])
	}
	if p.state = d.byte(); p.state > postRefused {
		d.fail("a state of no known kind")
	}
	if p.state != postSettled {
		p.seq = d.uint()
		p.entry.Change = payload.Change(d.string())
		decodeEntry(d, &p.entry)
		p.reason = d.string()
	}
	return p, d.done()
}

func encodeItem(e *payload.Entry) []byte {
	record := newEncoder(outboxVersion, 256)
	record.string(string(e.Change))
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
	item.Entry.Change = payload.Change(d.string())
	decodeEntry(d, &item.Entry)
	return item, d.done()
}

func encodeEntry(record *encoder, e *payload.Entry) {
	for _, s := range []string{e.LastMod, e.Hash, e.Length, e.Type} {
		record.string(s)
	}
	record.uint(uint64(len(e.Links)))
	for i := range e.Links {
		l := &e.Links[i]
		for _, s := range []string{l.Rel, l.Href, l.Modified, l.Hash, l.Length, l.Type, l.Encoding} {
			record.string(s)
		}
	}
}

func decodeEntry(d *decoder, e *payload.Entry) {
	for _, s := range []*string{&e.LastMod, &e.Hash, &e.Length, &e.Type} {
		*s = d.string()
	}
	for range d.uintMax(payload.MaxLinks) {
		var l payload.Link
		for _, s := range []*string{&l.Rel, &l.Href, &l.Modified, &l.Hash, &l.Length, &l.Type, &l.Encoding} {
			*s = d.string()
		}
		e.Links = append(e.Links, l)
	}
}
