package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// post makes the i-th POST of a loop.
type post func(i int) error

// loop is the whole of a bare client: so many connections, each posting as fast
// as it is answered.
func (c child) loop(ctx context.Context, stdout io.Writer, do post) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begin, cpu := time.Now(), ownCPU()
	for range c.connections {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(c.requests) && ctx.Err() == nil; i = next.Add(1) {
				if err := do(int(i)); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return json.NewEncoder(stdout).Encode(usage{Deliveries: c.requests, Wall: time.Since(begin), CPU: ownCPU() - cpu})
}

func ownCPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err) // RUSAGE_SELF cannot fail
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func (c child) callback(i int) string {
	return fmt.Sprintf("http://%s%s%d", c.target, pathCallback, i%c.callbacks)
}

func (c child) netHTTPPost() post {
	body := bytes.Repeat([]byte("x"), c.bodyBytes)
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: c.connections, MaxConnsPerHost: c.connections, DisableCompression: true,
	}}
	return func(i int) error { return netHTTPPost(client, c.callback(i), body) }
}

// netHTTPPost is one bare POST.
func netHTTPPost(client *http.Client, address string, body []byte) error {
	resp, err := client.Post(address, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	return want2xx(resp.StatusCode)
}

func (c child) fastHTTPPost() post {
	body := bytes.Repeat([]byte("x"), c.bodyBytes)
	client := &fasthttp.Client{MaxConnsPerHost: c.connections}
	return func(i int) error { return fastPost(client, c.callback(i), body) }
}

// fastPost is one bare POST.
func fastPost(client *fasthttp.Client, address string, body []byte) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/octet-stream")
	req.SetRequestURI(address)
	req.SetBodyRaw(body)
	if err := client.Do(req, resp); err != nil {
		return err
	}
	return want2xx(resp.StatusCode())
}

func want2xx(status int) error {
	if status/100 != 2 {
		return fmt.Errorf("the sink answered %d", status)
	}
	return nil
}
