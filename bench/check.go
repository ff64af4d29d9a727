package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// checker looks at every notification of one topic, whose bodies bear stamps with
// the numbers 0, 1, 2…: at each callback they must come in this order, each once,
// and signed with the callback's secret. It is too slow to be measured beside.
type checker struct {
	mu    sync.Mutex
	next  map[string]int // guarded by mu; by the path of the callback
	fault string         // guarded by mu; the first
}

// secretOf is the secret of the i-th callback.
func secretOf[T int | string](i T) string { return fmt.Sprintf("secret-%v", i) }

// take looks at one notification.
func (c *checker) take(req *http.Request, body []byte) {
	path := req.URL.Path
	mac := hmac.New(sha256.New, []byte(secretOf(strings.TrimPrefix(path, pathCallback))))
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	_, number, stamped := readStamp(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch want := c.next[path]; {
	case c.fault != "":
	case req.Header.Get("X-Hub-Signature") != signature:
		c.fault = fmt.Sprintf("%s: notification %d is signed %q, not %q", path, number, req.Header.Get("X-Hub-Signature"), signature)
	case !stamped || number != want:
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
