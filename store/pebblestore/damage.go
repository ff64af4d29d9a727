package pebblestore

import (
	"bytes"
	"sync"
)

// maxDamage bounds how much damage is remembered, and so how much is logged.
const maxDamage = 1000

// damage is what was found that cannot be read.
type damage struct {
	mu        sync.Mutex
	keys      map[string]struct{} // guarded by mu: the logged keys
	stretches []stretch           // guarded by mu
}

// stretch is keys that a damaged block covers, without the last.
type stretch struct{ from, to []byte }

// add returns how much was found so far, and false if the key is no news.
func (d *damage) add(key []byte) (count int, added bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.keys[string(key)]; known || len(d.keys) == maxDamage {
		return len(d.keys), false
	}
	if d.keys == nil {
		d.keys = make(map[string]struct{})
	}
	d.keys[string(key)] = struct{}{}
	return len(d.keys), true
}

func (d *damage) has(key []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.keys[string(key)]
	return known
}

// count is how much was found.
func (d *damage) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keys)
}

// stretch remembers that what is between the keys cannot be read.
func (d *damage) stretch(from, to []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.stretches) < maxDamage {
		d.stretches = append(d.stretches, stretch{bytes.Clone(from), to})
	}
}

// end is the end of the stretch that the key is in, where one is known.
func (d *damage) end(key []byte) (to []byte, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.stretches {
		if bytes.Compare(s.from, key) <= 0 && bytes.Compare(key, s.to) < 0 {
			return s.to, true
		}
	}
	return nil, false
}
