package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tally is what a sink notes of the notifications that it takes.
type tally struct {
	count  atomic.Int64
	holds  atomic.Pointer[chan struct{}] // closed by the release; nil: nothing is held
	checks atomic.Pointer[checker]       // nil: the sink does not check

	mu   sync.Mutex
	ways []way // guarded by mu
}

func (t *tally) holding() bool { return t.holds.Load() != nil }

// timed records the way of a body that bears a stamp.
func (t *tally) timed(body []byte) {
	at, burst, ok := readStamp(body)
	if !ok {
		return
	}
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ways = append(t.ways, way{Burst: int64(burst), Took: now - at})
}

// takeWays returns what was noted since the last call.
func (t *tally) takeWays() []byte {
	t.mu.Lock()
	ways := t.ways
	t.ways = make([]way, 0, cap(ways)) // no growing while it is measured
	t.mu.Unlock()
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, ways) // a Buffer takes everything
	return b.Bytes()
}

// checker looks at every notification of one topic, whose stamps have the numbers 0, 1, 2…
// Each callback must get each once, in this order, signed with the callback's secret. It is too
// slow to run during a measurement.
type checker struct {
	mu    sync.Mutex
	next  map[string]int // guarded by mu; by the path of the callback
	fault string         // guarded by mu; the first
}

// inspect looks at one notification.
func (c *checker) inspect(req *http.Request, body []byte) {
	path := req.URL.Path
	mac := hmac.New(sha256.New, []byte(secretOf(strings.TrimPrefix(path, pathCallback))))
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	got := req.Header.Get("X-Hub-Signature")
	_, number, ok := readStamp(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch want := c.next[path]; {
	case c.fault != "":
	case got != signature:
		c.fault = fmt.Sprintf("%s: notification %d is signed %q, not %q", path, number, got, signature)
	case !ok || number != want:
		c.fault = fmt.Sprintf("%s: notification %d came where %d was due", path, number, want)
	}
	c.next[path]++
}

// verdict is empty if so many callbacks had so many notifications, and all were right.
func (c *checker) verdict(callbacks, each int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != "" {
		return c.fault
	}
	if len(c.next) != callbacks {
		return fmt.Sprintf("%d callbacks had notifications, not %d", len(c.next), callbacks)
	}
	for path, n := range c.next {
		if n != each {
			return fmt.Sprintf("%s had %d notifications, not %d", path, n, each)
		}
	}
	return ""
}
