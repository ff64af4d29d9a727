package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// sink is every callback and every topic at once: it confirms what it is asked
// to confirm, counts what it is sent, and is as cheap as it can be, because it
// shares the processors with whom it measures.
//
//	POST /callback/N            counted, 204
//	GET  /callback/N            the challenge
//	HEAD /topic/NAME?hub=URI    the links of a topic
//	GET  /count                 how many POSTs were counted
type sink struct{ count atomic.Int64 }

func runSink(ctx context.Context, stdout io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &sink{}
	server := &fasthttp.Server{Handler: s.serve, Concurrency: 16_384, NoDefaultServerHeader: true, NoDefaultDate: true}
	go func() {
		<-ctx.Done()
		ln.Close()
	}()
	fmt.Fprintln(stdout, ln.Addr())
	if err := server.Serve(ln); ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *sink) serve(r *fasthttp.RequestCtx) {
	switch {
	case r.IsPost():
		s.count.Add(1)
		r.SetStatusCode(fasthttp.StatusNoContent)
	case string(r.Path()) == "/count":
		r.SetBodyString(strconv.FormatInt(s.count.Load(), 10))
	case r.QueryArgs().Has("hub.challenge"):
		r.SetBody(r.QueryArgs().Peek("hub.challenge"))
	case r.QueryArgs().Has("hub"):
		r.Response.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, r.URI().String(), r.QueryArgs().Peek("hub")))
	default:
		r.SetStatusCode(fasthttp.StatusNotFound)
	}
}
