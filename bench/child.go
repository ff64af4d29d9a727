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

// The roles of the processes that a run starts, each apart so that its CPU
// time is its own.
const (
	roleSink     = "sink"
	roleNetHTTP  = "net/http"
	roleFastHTTP = "fasthttp"
)

// child is one such process.
type child struct{ role, target string }

func (c child) run(ctx context.Context, p plan, stdout io.Writer) error {
	switch c.role {
	case roleSink:
		return runSink(ctx, stdout)
	case roleNetHTTP:
		return runLoop(ctx, p, stdout, netHTTPPost(c.target, p))
	case roleFastHTTP:
		return runLoop(ctx, p, stdout, fastHTTPPost(c.target, p))
	}
	return fmt.Errorf("there is no role %q", c.role)
}

// usage is what one contestant needed for the deliveries of a round.
type usage struct {
	Deliveries int
	Wall, CPU  time.Duration
	// Commands is what the hub's Redis carried out for it, beyond what it does at rest.
	Commands float64
}

func (u usage) perSecond() float64 { return float64(u.Deliveries) / u.Wall.Seconds() }

func (u usage) commandsEach() float64 { return u.Commands / float64(u.Deliveries) }

func (u usage) cpuEach() time.Duration { return u.CPU / time.Duration(u.Deliveries) }

// post makes the i-th POST of a loop.
type post func(i int) error

// runLoop is the whole of a bare client: the plan's connections, each posting
// as fast as it is answered.
func runLoop(ctx context.Context, p plan, stdout io.Writer, do post) error {
	total := int64(p.callbacks * p.publications)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begin, cpu := time.Now(), ownCPU()
	for range p.connections {
		wg.Go(func() {
			for i := next.Add(1); i <= total && ctx.Err() == nil; i = next.Add(1) {
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
	u := usage{Deliveries: int(total), Wall: time.Since(begin), CPU: ownCPU() - cpu}
	return json.NewEncoder(stdout).Encode(u)
}

func ownCPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err) // RUSAGE_SELF cannot fail
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func netHTTPPost(target string, p plan) post {
	body := bytes.Repeat([]byte("x"), p.bodyBytes)
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: p.connections, MaxConnsPerHost: p.connections, DisableCompression: true,
	}}
	return func(i int) error {
		resp, err := client.Post(callback(target, i%p.callbacks), "application/octet-stream", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		return want2xx(resp.StatusCode)
	}
}

func fastHTTPPost(target string, p plan) post {
	body := bytes.Repeat([]byte("x"), p.bodyBytes)
	client := &fasthttp.Client{MaxConnsPerHost: p.connections}
	return func(i int) error {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType("application/octet-stream")
		req.SetRequestURI(callback(target, i%p.callbacks))
		req.SetBodyRaw(body)
		if err := client.Do(req, resp); err != nil {
			return err
		}
		return want2xx(resp.StatusCode())
	}
}

func callback(target string, i int) string { return fmt.Sprintf("http://%s/callback/%d", target, i) }

func want2xx(status int) error {
	if status/100 != 2 {
		return fmt.Errorf("the sink answered %d", status)
	}
	return nil
}
