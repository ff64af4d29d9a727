package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/hub"
)

// keepsNothing is a Publisher that keeps nothing.
type keepsNothing struct{}

func (keepsNothing) Publish(context.Context, delivery.Publication) (delivery.Receipt, error) {
	return delivery.Receipt{ID: theID, Seq: 1}, nil
}

// answerWriter is what a server gives a handler, without a connection.
type answerWriter struct {
	header http.Header
	status int
}

func (w *answerWriter) Header() http.Header               { return w.header }
func (w *answerWriter) WriteHeader(status int)            { w.status = status }
func (w *answerWriter) Write(b []byte) (int, error)       { return len(b), nil }
func (w *answerWriter) SetReadDeadline(_ time.Time) error { return nil }

// BenchmarkPublish hands the handler one publication of 1 KB a round: the hub's own work, without the
// server and the log.
func BenchmarkPublish(b *testing.B) {
	handler := publishHandler(b)
	body := []byte(strings.Repeat("x", 1024))
	content := bytes.NewReader(body)
	req, err := http.NewRequest(http.MethodPost, hubURL, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", publishLink)
	b.ReportAllocs()
	for b.Loop() {
		content.Reset(body)
		req.Body = io.NopCloser(content)
		w := answerWriter{header: http.Header{}}
		handler.ServeHTTP(&w, req)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
}

const publishLink = `<https://source.example/topic>; rel="self", <` + hubURL + `>; rel="hub"`

// publishHandler is that of a hub whose topics all name it.
func publishHandler(b *testing.B) http.Handler {
	topics := doFunc(func(r *http.Request) (*http.Response, error) {
		return respond(r, http.StatusOK, "", good(address(r))), nil
	})
	cfg := hub.Config{URL: hubURL}
	s := newStage(b, cfg, topics, anywhere{})
	quiet, err := hub.New(cfg, hub.Parts{
		Requests: s.requests, Publisher: keepsNothing{}, Audience: s.audience, Pings: s.pings,
		Checker: s.checker, Transport: topics, Addresses: anywhere{},
	}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return quiet.Handler()
}

// BenchmarkPublishHTTP is the same over a connection, with a client that does as little
// as it can; half the time is the kernel's.
func BenchmarkPublishHTTP(b *testing.B) {
	conn := dialServer(b, publishHandler(b))
	request := []byte(fmt.Sprintf("POST /websub/ HTTP/1.1\r\nHost: hub.example\r\nContent-Type: text/plain\r\nLink: %s\r\nContent-Length: 1024\r\n\r\n%s",
		publishLink, strings.Repeat("x", 1024)))
	answer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200 ")) || !bytes.HasSuffix(answer[:n], []byte("\n")) {
			b.Fatalf("%q, %v", answer[:n], err)
		}
	}
}

// dialServer connects to a server of the handler.
func dialServer(b *testing.B, handler http.Handler) net.Conn {
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
