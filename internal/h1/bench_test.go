package h1_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"carillon/internal/h1"
)

// sink answers every request on kept connections with as little work as there can be,
// so that what is measured is the client.
func sink(b *testing.B, size int) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go drink(c, size)
		}
	}()
	return ln.Addr().String()
}

// drink counts requests by where their header ends.
func drink(c net.Conn, size int) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	answer := []byte("HTTP/1.1 204 No Content\r\n\r\n")
	have, body := 0, -1
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		if body < 0 {
			if end := bytes.Index(buf[:have], []byte("\r\n\r\n")); end >= 0 {
				body = end + 4
			}
		}
		if body >= 0 && have >= body+size {
			if _, err := c.Write(answer); err != nil {
				return
			}
			have, body = 0, -1
		}
	}
}

const benchConns = 64

func BenchmarkPost(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1<<10)
	b.Run("h1", func(b *testing.B) {
		addr := sink(b, len(body))
		cfg := config()
		cfg.Timeout = 30 * time.Second
		cfg.MaxConnsPerHost, cfg.IdlePerHost, cfg.MaxConns = 2*benchConns, 2*benchConns, 2*benchConns
		client := newClient(b, cfg)
		message, err := h1.NewMessage(
			body, h1.Field{Name: "User-Agent", Value: "bench"},
			h1.Field{Name: "Link", Value: "<http://h.example>; rel=self"},
		)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		inParallel(b, func() bool {
			_, err := client.Post(ctx, &h1.Request{Authority: addr, Target: "/callback", Message: message})
			return err == nil
		})
	})
	b.Run("nethttp", func(b *testing.B) {
		addr := sink(b, len(body))
		client := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2 * benchConns}
		defer client.CloseIdleConnections()
		inParallel(b, func() bool {
			ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/callback", bytes.NewReader(body))
			if err != nil {
				return false
			}
			req.Header = http.Header{"User-Agent": {"bench"}, "Link": {"<http://h.example>; rel=self"}}
			resp, err := client.RoundTrip(req)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return true
		})
	})
}

// inParallel runs b.N calls on benchConns goroutines.
func inParallel(b *testing.B, call func() bool) {
	b.ReportAllocs()
	b.SetParallelism(benchConns / 2)
	var failed atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !call() {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		b.Errorf("%d requests failed", n)
	}
}
