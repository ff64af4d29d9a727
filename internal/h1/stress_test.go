package h1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// moods are how a bad host treats its connections and requests.
var moods = []string{
	"well", "well", "slow", "refuses", "far", "silent", "cuts", "closes", "closes early", "hangs",
	"drips", "speaks", "answers twice",
}

// town is a place whose hosts each have a mood, which may change with each connection.
type town struct {
	*place
	secure bool
	mu     sync.Mutex
	rand   *rand.Rand
	wg     sync.WaitGroup
	open   []net.Conn
}

func (o *town) intn(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rand.IntN(n)
}

func (o *town) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mood := moods[o.intn(len(moods))]
	wait := time.Duration(o.intn(8)) * ms
	switch mood {
	case "refuses":
		return nil, errors.New("refused")
	case "far":
		wait *= 100
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	o.mu.Lock()
	o.open = append(o.open, server)
	o.mu.Unlock()
	o.wg.Go(func() {
		defer server.Close()
		o.serve(mood, server)
	})
	return client, nil
}

// dripping writes a byte at a time.
type dripping struct{ net.Conn }

func (d dripping) Write(b []byte) (int, error) {
	for i := range b {
		if i%64 == 0 {
			time.Sleep(20 * ms)
		}
		if _, err := d.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func (o *town) serve(mood string, nc net.Conn) {
	switch mood {
	case "silent":
		_, _ = io.Copy(io.Discard, nc)
		return
	case "cuts":
		_, _ = io.CopyN(io.Discard, nc, 100)
		return
	case "drips":
		nc = dripping{nc}
	}
	c := nc
	if o.secure {
		c = tls.Server(nc, o.server)
	}
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		switch mood {
		case "slow":
			time.Sleep(time.Duration(o.intn(1000)) * ms)
		case "closes early":
			return
		case "hangs":
			if o.intn(4) == 0 {
				_, _ = io.Copy(io.Discard, c)
				return
			}
		default:
			time.Sleep(time.Duration(o.intn(4)) * ms)
		}
		// The answer names its request.
		name := req.URL.Path
		answer := fmt.Sprintf("HTTP/1.1 503 %s\r\nRetry-After: %s\r\nContent-Length: 2\r\n\r\nok", "x", name)
		if mood == "answers twice" && o.intn(3) == 0 {
			answer += answer
		}
		if _, err := io.WriteString(c, answer); err != nil || mood == "closes" {
			return
		}
		if mood == "speaks" {
			time.Sleep(time.Duration(o.intn(50)) * ms)
			if _, err := io.WriteString(c, "HTTP/1.1 200 unasked\r\n\r\n"); err != nil {
				return
			}
		}
	}
}

// Whatever hosts do and callers break off, no request gets the answer to another, each ends in
// time, and nothing is left of them: no slot, no count, no place in a line.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(stressed) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stress(t, seed) })
		})
	}
}

const stressed = 5

func stress(t *testing.T, seed uint64) {
	o := &town{place: newPlace(t, 0, 0), secure: seed%5 > 0, rand: rand.New(rand.NewPCG(seed, 1))}
	cfg := o.config()
	cfg.Dial = o.dial
	cfg.Timeout, cfg.HandshakeTimeout = 3*time.Second, 2*time.Second
	cfg.MaxConns, cfg.MaxConnsPerHost, cfg.IdlePerHost = 1+o.intn(20), 1+o.intn(6), 1+o.intn(4)
	cfg.IdleBytes, cfg.IdleTimeout = int64(1+o.intn(10)*h1.TLSBytes), 2*time.Second
	cfg.SessionBytes = int64(1 + o.intn(100<<10))
	cfg.TLS.VerifyConnection = func(tls.ConnectionState) error {
		time.Sleep(time.Duration(o.intn(3)) * ms) // of a processor
		return nil
	}
	client := newClient(t, cfg)
	var wg sync.WaitGroup
	var answered atomic.Int64
	for i := range 400 {
		host, cancelled, get := o.intn(12), o.intn(4) == 0, o.intn(8) == 0
		within, pause := time.Duration(o.intn(2000))*ms, time.Duration(o.intn(12))*ms
		if i == 200 {
			pause = 3 * time.Second
		}
		time.Sleep(pause)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if cancelled {
				time.AfterFunc(within, cancel)
			}
			begin, name := time.Now(), fmt.Sprint("/", i)
			retryAfter, err := o.ask(ctx, t, client, host, name, get)
			if took := time.Since(begin); !get && took > 10*time.Second {
				t.Errorf("request %d took %s: %v", i, took, err)
			}
			if err == nil {
				answered.Add(1)
			}
			if err == nil && retryAfter != name {
				t.Errorf("request %d got the answer to %q", i, retryAfter)
			}
		})
	}
	wg.Wait()
	if n := answered.Load(); n < 40 || n > 360 {
		t.Errorf("%d of 400 requests were answered", n)
	}
	time.Sleep(10 * time.Second) // what looks at the clock
	client.CloseIdleConnections()
	s := client.Stats()
	s.Remembered, s.SessionBytes, s.Counts = 0, 0, h1.Counts{}
	equal(t, "left", s, h1.Stats{})
	if bytes := client.Stats().SessionBytes; bytes < 0 || bytes > cfg.SessionBytes || bytes == 0 != (client.Stats().Remembered == 0) {
		t.Errorf("%d bytes of sessions, of %d, of %d hosts", bytes, cfg.SessionBytes, client.Stats().Remembered)
	}
	free, begun, ready := client.Paced()
	equal(t, "free slots", free, client.Slots())
	equal(t, "begun", begun, 0)
	equal(t, "in line", ready, 0)
	for _, c := range o.open {
		_ = c.Close()
	}
	o.wg.Wait()
}

// ask makes a request, and returns the name in the answer to it.
func (o *town) ask(ctx context.Context, t *testing.T, client *h1.Client, host int, name string, get bool) (string, error) {
	r := to(t, host)
	r.Secure = o.secure
	if !get {
		r.Target = name
		a, err := client.Post(ctx, r)
		return a.RetryAfter, err
	}
	scheme := "http://"
	if o.secure {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+r.Authority+name, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.Header.Get("Retry-After"), nil
}
