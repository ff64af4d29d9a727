package hub_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
)

// fuzzSecret is in requests where a secret may be, and in none of the hub's texts.
const fuzzSecret = "c4nary-5ecret-0f-a-subscriber"

// checkAnswer holds what is true of every answer: it is one of the statuses, it is
// plain text that no browser takes for more, and it has nothing in it of the secret.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, statuses ...int) {
	t.Helper()
	body := w.Body.String()
	if !slices.Contains(statuses, w.Code) {
		t.Errorf("status %d: %s", w.Code, body)
	}
	if w.Code == http.StatusNoContent {
		return
	}
	if ct := w.Header().Get("Content-Type"); ct != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("it comes as %q, %v", ct, w.Header())
	}
	if len(body) > 4000 || strings.Count(body, "\n") != 1 || strings.ContainsFunc(
		body, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f },
	) {
		t.Errorf("the text is %q", body)
	}
	for name, values := range w.Header() {
		if strings.Contains(strings.Join(values, ""), fuzzSecret) {
			t.Errorf("the secret is in %s", name)
		}
	}
	if strings.Contains(body, fuzzSecret) {
		t.Errorf("the secret is in %q", body)
	}
	if retry := w.Header().Get("Retry-After"); (w.Code == 429 || w.Code == 503) != (retry != "") {
		t.Errorf("status %d with Retry-After %q", w.Code, retry)
	}
}

// FuzzForm posts anything as a form. Only answers of the protocol come back. An accepted request is
// the one that was sent, byte for byte, with an address that may be called. A refused one leaves
// nothing behind.
func FuzzForm(f *testing.F) {
	f.Add(
		formType, "",
		"hub.mode=subscribe&hub.topic=http%3A%2F%2Ft.example%2F&hub.callback=http%3A%2F%2Fc.example%2F&hub.lease_seconds=1&hub.secret="+fuzzSecret,
	)
	f.Add(formType, "", "hub.mode=publish&hub.url=http://t.example/&hub.topic=http://t.example/2")
	addresses := guard(f)
	s := newStage(f, hub.Config{URL: hubURL}, doFunc(nil), addresses)
	handler := s.hub.Handler()
	f.Fuzz(func(t *testing.T, contentType, query, body string) {
		before := len(s.requests.wishes)
		r := httptest.NewRequest(http.MethodPost, hubURL, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		checkAnswer(t, w, 202, 204, 400, 403, 413, 415, 429)
		if strings.ContainsAny(w.Body.String(), "<>\"") {
			t.Errorf("the text shows markup: %q", w.Body)
		}
		wishes := s.requests.wishes[before:]
		s.requests.wishes = nil
		clear(s.pings.kept)
		if len(wishes) != 0 != (w.Code == http.StatusAccepted) || len(wishes) > 1 {
			t.Fatalf("%d requests and status %d for %q", len(wishes), w.Code, body)
		}
		for _, wish := range wishes {
			checkWish(t, addresses, wish, body)
		}
	})
}

// checkWish holds an accepted request to the form that it came in.
func checkWish(t *testing.T, addresses hub.Addresses, wish subscription.Wish, body string) {
	t.Helper()
	if err := errors.Join(addresses.CheckURL(wish.Callback), addresses.CheckURL(wish.Topic)); err != nil {
		t.Errorf("%+v was accepted: %v", wish, err)
	}
	if len(wish.Secret) >= 200 || wish.Lease < 0 || wish.LeaseGiven != (wish.Lease > 0) {
		t.Errorf("%+v has a secret of %d bytes", wish, len(wish.Secret))
	}
	for _, value := range []string{wish.Callback, wish.Topic, string(wish.Secret)} {
		found := value == ""
		for pair := range strings.SplitSeq(body, "&") {
			_, raw, _ := strings.Cut(pair, "=")
			given, err := url.QueryUnescape(raw)
			found = found || err == nil && given == value
		}
		if !found {
			t.Errorf("%q is in no parameter of %q", value, body)
		}
	}
}

// guard judges addresses as the hub does.
func guard(f *testing.F) hub.Addresses {
	f.Helper()
	dialer, err := egress.New(egress.Config{})
	if err != nil {
		f.Fatal(err)
	}
	return dialer
}

// FuzzPublish: whatever is published, what is accepted goes on byte for byte with
// links that fit into a header, and what is refused does not.
func FuzzPublish(f *testing.F) {
	const topic = "https://source.example/set/change/"
	f.Add("text/plain", `<`+topic+`>; rel="self", <`+hubURL+`>; rel="hub"`, "", []byte("hello"))
	f.Add("application/xml", "<"+topic+">;rel=self", "<"+hubURL+">;rel=hub", []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`))
	good := doFunc(func(r *http.Request) (*http.Response, error) { return respond(r, 200, "", good(address(r))), nil })
	s := newStage(f, hub.Config{URL: hubURL, MaxBody: 1 << 16, TopicCheckEntries: 10}, good, guard(f))
	handler := s.hub.Handler()
	f.Fuzz(func(t *testing.T, contentType, link, more string, body []byte) {
		s.publisher.published = nil
		r := httptest.NewRequest(http.MethodPost, hubURL, bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header["Link"] = []string{link, more}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		checkAnswer(t, w, 200, 202, 204, 400, 403, 413, 415, 429)
		for _, p := range s.publisher.published {
			<-s.publisher.did
			if w.Code != 200 || !bytes.Equal(p.Body, body) || p.ContentType != contentType {
				t.Errorf("status %d, published is %q as %q", w.Code, p.Body, p.ContentType)
			}
			size := 0
			for _, l := range p.Links {
				if size += len(l); !httpguts.ValidHeaderFieldValue(l) {
					t.Errorf("the link %q is no field value", l)
				}
			}
			if len(p.Links) > hub.DefaultMaxLinks || size > hub.DefaultMaxLinkBytes {
				t.Errorf("%d links of %d bytes", len(p.Links), size)
			}
		}
		if got := len(s.publisher.published); got > 1 || (w.Code == 200) != (got == 1) {
			t.Errorf("status %d and %d publications", w.Code, got)
		}
	})
}

// answering is a connection whose peer has sent everything already. It counts the bytes that are read.
type answering struct {
	net.Conn // nil: whatever is not below must not be called
	rest     *strings.Reader
	read     int
}

func (a *answering) Read(p []byte) (int, error) {
	n, err := a.rest.Read(p)
	a.read += n
	return n, err
}
func (a *answering) Write(p []byte) (int, error)      { return len(p), nil }
func (a *answering) Close() error                     { return nil }
func (a *answering) SetDeadline(time.Time) error      { return nil }
func (a *answering) SetReadDeadline(time.Time) error  { return nil }
func (a *answering) SetWriteDeadline(time.Time) error { return nil }

// saying is a transport, with the limits of the hub's own, whose every peer says the same.
func saying(t testing.TB, text string) http.RoundTripper {
	t.Helper()
	dialer, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return wayOut(t, dialedOut{dialer, func(context.Context, string, string) (net.Conn, error) {
		return &answering{rest: strings.NewReader(text)}, nil
	}}).Transport()
}

// dialedOut is a way out whose connections a function makes.
type dialedOut struct {
	*egress.Dialer
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (d dialedOut) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dial(ctx, network, address)
}

// FuzzVerification: of whatever a callback says, only a whole answer of 2xx with exactly
// the challenge is a confirmation.
func FuzzVerification(f *testing.F) {
	const challenge = "yAB7cdEFghij-_0123456789klmnopqrstuvwxyz"
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n" + challenge)
	f.Add("HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\n\r\n" + challenge)
	request := subscription.Request{Mode: subscription.ModeSubscribe, Topic: "http://t.example/", Callback: "http://c.example/?x", Lease: time.Hour}
	f.Fuzz(func(t *testing.T, said string) {
		transport := saying(t, said)
		v, err := hub.NewVerifier(hub.Config{URL: hubURL}, transport, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		err = v.Confirm(t.Context(), request, challenge)
		if err == nil && !strings.Contains(strings.ReplaceAll(said, "\r\n", ""), challenge) && !chunked(said) {
			t.Errorf("confirmed by %q", said)
		}
		if err != nil && !errors.Is(err, subscription.ErrNoIntent) && !errors.Is(err, subscription.ErrNoAnswer) {
			t.Errorf("error %v", err)
		}
		if err != nil && strings.Contains(err.Error(), challenge) {
			t.Errorf("the challenge is in the error %v", err)
		}
		if err := v.Deny(t.Context(), request.Topic, request.Callback, ""); err != nil && !errors.Is(err, subscription.ErrNoAnswer) {
			t.Errorf("denial: error %v", err)
		}
	})
}

// chunked reports an answer whose pieces may hold the challenge in parts.
func chunked(said string) bool { return strings.Contains(strings.ToLower(said), "chunked") }

// FuzzTopicAnswer: of whatever a topic's server says, only an answer that names the topic
// and this hub is one that the hub takes.
func FuzzTopicAnswer(f *testing.F) {
	const topic = "http://source.example/set/change/"
	f.Add("HTTP/1.1 200 OK\r\n" + good(topic) + "\r\nContent-Length: 0\r\n\r\n")
	f.Add("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><head><link rel=self href='" + topic + "'><link rel=hub href='" + hubURL + "'>")
	f.Fuzz(func(t *testing.T, said string) {
		checker, err := hub.NewChecker(hub.Config{URL: hubURL}, saying(t, said), nil, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		err = checker.Validate(t.Context(), topic)
		var refusal *subscription.Refusal
		switch {
		case err == nil:
			if host := "hub.example"; !strings.Contains(strings.ToLower(said), host) && !escaped(said) {
				t.Errorf("taken, though it does not name the hub: %q", said)
			}
		case errors.As(err, &refusal):
			if len(refusal.Reason) > 200 || strings.ContainsFunc(refusal.Reason, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("the reason is %q", refusal.Reason)
			}
		case !errors.Is(err, hub.ErrTopicAway):
			t.Errorf("error %v", err)
		}
	})
}

// escaped reports an answer that may name the hub in other letters.
func escaped(said string) bool { return strings.ContainsAny(said, "&%\\") || chunked(said) }
