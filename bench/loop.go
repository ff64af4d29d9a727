package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// post makes the i-th POST of a loop.
type post func(i int) error

// runLoop is a bare client: so many connections, each posting as fast as the sink answers. It
// runs a round for each line of stdin, and keeps its connections and TLS sessions between them.
func runLoop(ctx context.Context, c child, stdin io.Reader, stdout io.Writer) error {
	do, err := c.post()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		u, err := c.round(ctx, do)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(stdout).Encode(u); err != nil {
			return err
		}
	}
	return nil
}

// post is that of the loop's client.
func (c child) post() (post, error) {
	body := bytes.Repeat([]byte("x"), c.BodyBytes)
	callback := func(i int) string {
		return fmt.Sprintf("http://%s%s%d", c.Target, pathCallback, i%c.Callbacks)
	}
	if c.Role == roleFastHTTP {
		client := &fasthttp.Client{MaxConnsPerHost: c.Connections}
		return func(i int) error { return fastPost(client, callback(i), body) }, nil
	}
	transport := &http.Transport{MaxIdleConnsPerHost: c.Connections, DisableCompression: true}
	client := &http.Client{Transport: transport}
	if c.Authority == "" {
		transport.MaxConnsPerHost = c.Connections
		return func(i int) error { return netHTTPPost(client, callback(i), body) }, nil
	}
	data, err := os.ReadFile(filepath.Join(c.Authority, rootFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data)
	sessions := tls.NewLRUClientSessionCache(c.Hosts)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, ClientSessionCache: sessions}
	transport.IdleConnTimeout = time.Hour
	return func(i int) error {
		return netHTTPPost(client, tlsCallback(c.Target, c.Hosts, i%c.Callbacks), body)
	}, nil
}

// round makes the requests of one round.
func (c child) round(ctx context.Context, do post) (usage, error) {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begin, cpu := time.Now(), ownCPU()
	for range c.Connections {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(c.Requests) && ctx.Err() == nil; i = next.Add(1) {
				if err := do(int(i)); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return usage{}, *err
	}
	return usage{Deliveries: c.Requests, Wall: time.Since(begin), CPU: ownCPU() - cpu}, nil
}

func ownCPU() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err) // RUSAGE_SELF cannot fail
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
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

// bareLoop is a process that runs runLoop.
type bareLoop struct{ *program }

// startLoop starts the loop that c describes.
func startLoop(ctx context.Context, c child) (bareLoop, error) {
	p, err := c.launch(ctx)
	return bareLoop{p}, err
}

// again runs one round.
func (l bareLoop) again() (u usage, err error) {
	if _, err := fmt.Fprintln(l.in, "round"); err != nil {
		return u, err
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("the loop ended (see above): %w", err)
	}
	return u, json.Unmarshal(line, &u)
}
