package lists

import (
	"hash/maphash"
	"net/http"
	"net/url"
	"time"

	"carillon/payload"
)

const (
	// maxKnown is how many documents a Client remembers, and maxTold how many warnings;
	// one that is forgotten is read once more, or told once more.
	maxKnown = 1000
	maxTold  = 4000
	// maxKept is how long each text may be that is remembered, bytes.
	maxKept = 2048
	// settled is how old a Last-Modified must be to tell versions apart: it counts
	// seconds, and a document may change twice in one (RFC 9110 §8.8.2.2).
	settled = 2 * time.Second
)

// known is what a Client remembers of a list of changes whose entries were all
// visited: enough to ask whether it has changed, and to go on from it if not.
type known struct {
	etag, modified string
	// end is how far its entries were taken, and the rest what it said of itself.
	end, from, until time.Time

	index, up, archives string
}

func (k *known) ask(h http.Header) {
	if k.etag != "" {
		h.Set("If-None-Match", k.etag)
		return
	}
	h.Set("If-Modified-Since", k.modified)
}

// recall returns what is known of the document, if whoever has taken all before
// since has nothing more to learn from it as it was.
func (c *Client) recall(at *url.URL, since time.Time) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[at.String()]
	if !ok || since.IsZero() || since.Before(k.end) {
		return nil
	}
	return &k
}

// remember keeps k, if the answer has something to ask by next time.
func (c *Client) remember(at *url.URL, h http.Header, k known) {
	k.etag = h.Get("ETag")
	if k.etag == "" {
		modified, err := http.ParseTime(h.Get("Last-Modified"))
		date, errDate := http.ParseTime(h.Get("Date"))
		if err == nil && errDate == nil && date.Sub(modified) >= settled {
			k.modified = h.Get("Last-Modified")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.etag == "" && k.modified == "" || max(len(k.etag), len(at.String()), len(k.index), len(k.up), len(k.archives)) > maxKept {
		delete(c.known, at.String())
		return
	}
	makeRoom(c.known, maxKnown)
	c.known[at.String()] = k
}

// Forget makes the next reading a whole one, whatever was read before. Who has lost
// what a visit took calls it before asking again.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}

// warn tells what is odd in a document, each kind once for an address. It leaves out what a
// document lacks without harm to who reads it.
func (c *Client) warn(uri *url.URL, found ...payload.Violation) {
	for _, v := range found {
		if !v.Absent && c.news(uri.String()+" "+v.Clause+" "+kind(v.Message)) {
			c.cfg.Warn(Warning{URI: uri.String(), Violation: v})
		}
	}
}

// kind is a message without its numbers and what it quotes, which differ from one
// reading to the next.
func kind(message string) string {
	quoted := false
	kept := make([]byte, 0, len(message))
	for i := range len(message) {
		switch c := message[i]; {
		case c == '"':
			quoted = !quoted
		case !quoted && (c < '0' || c > '9'):
			kept = append(kept, c)
		}
	}
	return string(kept)
}

// news tells whether text was not told before.
func (c *Client) news(text string) bool {
	key := maphash.String(c.seed, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, told := c.told[key]; told {
		return false
	}
	makeRoom(c.told, maxTold)
	c.told[key] = struct{}{}
	return true
}

// makeRoom drops any one where there are n.
func makeRoom[K comparable, V any](m map[K]V, n int) {
	if len(m) < n {
		return
	}
	for key := range m {
		delete(m, key)
		return
	}
}
