package lists

import (
	"hash/maphash"
	"net/http"
	"net/url"
	"time"

	"carillon/internal/fetch"
	"carillon/payload"
)

const (
	// maxKnown is how many documents a Client remembers, and maxTold how many warnings; a forgotten one is
	// read, or reported, once more.
	maxKnown  = 1000
	maxWarned = 4000
	// maxKept is how long each text may be that is remembered, bytes.
	maxKept = 2048
)

// known is what a Client remembers of a list of changes whose entries were all
// visited: enough to ask whether it has changed, and to go on from it if not.
type known struct {
	fetch.Validators
	// end is how far its entries were taken, and the rest what it said of itself.
	end, from, until time.Time

	index, up, archives string
}

// recall returns the known state of the document, if a reader that has taken everything before since
// would learn nothing more from it.
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
	k.Validators = fetch.ValidatorsOf(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.Validators == (fetch.Validators{}) ||
		max(len(at.String()), len(k.index), len(k.up), len(k.archives)) > maxKept {
		delete(c.known, at.String())
		return
	}
	evict(c.known, maxKnown)
	c.known[at.String()] = k
}

// Forget makes the next reading a whole one, whatever was read before. A caller that has lost visited
// entries calls it before asking again.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}

// warn reports what is odd in a document, each kind once for an address. It leaves out what a
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

// news reports whether a text is new.
func (c *Client) news(text string) bool {
	key := maphash.String(c.seed, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, listed := c.warned[key]; listed {
		return false
	}
	evict(c.warned, maxWarned)
	c.warned[key] = struct{}{}
	return true
}

// evict drops any one where there are n.
func evict[K comparable, V any](m map[K]V, n int) {
	if len(m) < n {
		return
	}
	for key := range m {
		delete(m, key)
		return
	}
}
