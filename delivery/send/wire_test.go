package send_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// signatures answers deliveries and returns their signatures.
func signatures(t testing.TB) (url string, got <-chan string) {
	t.Helper()
	seen := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- strings.Join(r.Header.Values("X-Hub-Signature"), "|")
	}))
	t.Cleanup(srv.Close)
	return srv.URL, seen
}

// Signatures are those of crypto/hmac, for secrets of all lengths around a block, one
// after the other.
func TestSignaturesOfAllKeys(t *testing.T) {
	url, got := signatures(t)
	for method, newHash := range map[string]func() hash.Hash{
		"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	} {
		s := newSender(t, send.Config{Signature: method}, outlet(t))
		for _, length := range []int{1, 200, 63, 64, 65, 2, 127, 128, 129, 199, 32, 1000, 20} {
			for _, size := range []int{0, 1, 1 << 10, 100_000} {
				secret, body := strings.Repeat("s3cret", length)[:length], bytes.Repeat([]byte{0xb0}, size)
				mac := hmac.New(newHash, []byte(secret))
				mac.Write(body)
				s.Send(t.Context(), &send.Attempt{
					Callback: url, Secret: subscription.Secret(secret),
					Notification: &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse(topicURL), Body: body}},
				})
				want := method + "=" + hex.EncodeToString(mac.Sum(nil))
				equal(t, fmt.Sprintf("secret of %d, body of %d", length, size), <-got, want)
			}
		}
	}
}

// A host has its own method, for any port and spelling of its name. A kept line for others with the
// same secret is not used for it.
func TestSignatureForAHost(t *testing.T) {
	url, got := signatures(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	s := newSender(t, send.Config{SignatureFor: map[string]string{"localhost": "sha1"}}, outlet(t))
	n := &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("a body")}}
	for _, tt := range []struct{ host, method string }{
		{"127.0.0.1", "sha256"}, {"localhost", "sha1"}, {"LocalHost", "sha1"}, {"127.0.0.1", "sha256"},
	} {
		a := &send.Attempt{Callback: "http://" + tt.host + ":" + port + "/", Secret: "s3cret", Notification: n}
		if out := s.Send(t.Context(), a); out.Class != delivery.ClassDelivered {
			t.Fatalf("delivery to %s: %+v", tt.host, out)
		}
		method, _, _ := strings.Cut(<-got, "=")
		equal(t, "method for "+tt.host, method, tt.method)
	}
	_, err := send.NewHTTPSender(send.Config{Hub: "https://hub.example/", SignatureFor: map[string]string{"a.example": "md5"}}, outlet(t))
	if err == nil || !strings.Contains(err.Error(), "host a.example") {
		t.Errorf("a method that there is not: %v", err)
	}
}

// The shared part of the attempts on a notification is the same for each, and kept within a bound.
func TestSharedWire(t *testing.T) {
	url, got := signatures(t)
	s := newSender(t, send.Config{}, outlet(t))
	var w send.Wire
	const many = 300
	for range 2 {
		for i := range many {
			secret := subscription.Secret(fmt.Sprint("secret ", i))
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(notification.Body)
			out := s.Send(t.Context(), send.Sharing(attemptOn(url, secret), &w, true))
			equal(t, "class", out.Class, delivery.ClassDelivered)
			equal(t, string(secret), <-got, "sha256="+hex.EncodeToString(mac.Sum(nil)))
		}
	}
	if n := w.Signatures(); n < 100 || n >= many {
		t.Errorf("%d signatures are kept of %d", n, many)
	}
	// A kept line is used: it shows where the body is not that of the others.
	kept, other := attemptOn(url, "secret 0"), *notification
	other.Body = []byte("another")
	s.Send(t.Context(), send.Sharing(kept, &w, true))
	want := <-got
	kept.Notification = &other
	s.Send(t.Context(), send.Sharing(kept, &w, true))
	equal(t, "signature kept", <-got, want)
	s.Send(t.Context(), send.Sharing(kept, &w, false))
	if <-got == want {
		t.Error("the signature of another's body, where none is shared")
	}
	s.Send(t.Context(), send.Sharing(attemptOn(url, ""), &w, true))
	equal(t, "without a secret", <-got, "")
}

// A text that would break the header is not sent, whatever check has passed it.
func TestUnfitForHeaders(t *testing.T) {
	url, got := signatures(t)
	s := newSender(t, send.Config{}, outlet(t))
	for _, odd := range []string{"a\r\nX: y", "a\nb", "a\rb", "a\x00", "a\x7f", "\x01"} {
		for name, p := range map[string]delivery.Publication{
			"ContentType": {Topic: topic.Parse(topicURL), ContentType: odd},
			"Links":       {Topic: topic.Parse(topicURL), Links: []string{"<a>; rel=b", odd}},
		} {
			out := s.Send(t.Context(), &send.Attempt{Callback: url, Notification: &delivery.Notification{Publication: p}})
			if out.Class != delivery.ClassProtocol || out.Err == nil {
				t.Errorf("%s %q: %+v", name, odd, out)
			}
		}
	}
	equal(t, "deliveries", len(got), 0)
}

// A delivery in the steady state allocates nothing.
func TestSendCostsNoMemory(t *testing.T) {
	for _, secrets := range []bool{true, false} {
		costsNoMemory(t, secrets)
	}
}

func costsNoMemory(t *testing.T, secrets bool) {
	a, s := steady(t, secrets)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := testing.AllocsPerRun(500, func() {
		if out := s.Send(ctx, a); out.Class != delivery.ClassDelivered {
			t.Fatalf("%+v", out)
		}
	})
	if n > droppedByPool {
		t.Errorf("%v allocations", n)
	}
}

// steady returns a signed attempt on a callback that answers without allocating.
func steady(t testing.TB, secrets bool) (*send.Attempt, *send.HTTPSender) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	n := &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: make([]byte, 1<<10)}}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go drink(c, len(n.Body))
		}
	}()
	a := &send.Attempt{Callback: "http://" + ln.Addr().String() + "/callback/17?x=%31", Secret: "a secret", Notification: n, Number: 1}
	return send.Sharing(a, new(send.Wire), secrets), newSender(t, send.Config{}, outlet(t))
}

// drink answers each request with a header and a body of that size.
func drink(c net.Conn, size int) {
	defer c.Close()
	buf, have, body := make([]byte, 64<<10), 0, -1
	answer := []byte("HTTP/1.1 204 No Content\r\n\r\n")
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		if end := bytes.Index(buf[:have], []byte("\r\n\r\n")); body < 0 && end >= 0 {
			body = end + 4
		}
		if body >= 0 && have >= body+size {
			if _, err := c.Write(answer); err != nil {
				return
			}
			have, body = 0, -1
		}
	}
}

// BenchmarkSend: a delivery, with the signature that others have too and with one of
// its own.
func BenchmarkSend(b *testing.B) {
	for name, secrets := range map[string]bool{"shared signature": true, "own signature": false} {
		b.Run(name, func(b *testing.B) {
			a, s := steady(b, secrets)
			b.ReportAllocs()
			for range b.N {
				if out := s.Send(b.Context(), a); out.Class != delivery.ClassDelivered {
					b.Fatalf("%+v", out)
				}
			}
		})
	}
}
