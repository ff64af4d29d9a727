package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
)

// desk is a subscription.Store with nothing but requests.
type desk struct {
	subscription.Store
	mu   sync.Mutex
	kept map[subscription.ID]subscription.Request
}

func (s *desk) Submit(_ context.Context, r subscription.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[r.ID] = r
	return nil
}

func (s *desk) KeepStart(_ context.Context, r subscription.Request, start uint64) (subscription.Request, error) {
	return r.StartingAt(start), nil
}

func (s *desk) Drop(_ context.Context, r subscription.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, r.ID)
	return nil
}

func (s *desk) Activate(ctx context.Context, r subscription.Request, _ subscription.Subscription) error {
	return s.Drop(ctx, r)
}

func (s *desk) Unsubscribe(ctx context.Context, r subscription.Request) error { return s.Drop(ctx, r) }

func (s *desk) Get(context.Context, subscription.ID) (subscription.Subscription, error) {
	return subscription.Subscription{}, subscription.ErrNotFound
}

func (s *desk) Request(context.Context, subscription.ID) (subscription.Request, error) {
	return subscription.Request{}, subscription.ErrNotFound
}

func (s *desk) Requests(context.Context, subscription.Shard) iter.Seq2[subscription.Request, error] {
	return func(func(subscription.Request, error) bool) {}
}

func (s *desk) Expired(context.Context, subscription.Shard, time.Time, int) ([]subscription.Subscription, error) {
	return nil, nil
}

func (s *desk) unsettled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

type nobody struct{}

func (nobody) Head(context.Context, string) (uint64, error) { return 0, nil }
func (nobody) Activated(subscription.Subscription)          {}
func (nobody) Ended(subscription.ID)                        {}

// network is the world that the hub speaks to, in memory: it counts what reaches each
// host, in requests and in bytes of HTTP.
type network struct {
	t      *testing.T
	answer map[string]http.HandlerFunc // by host; a host without one takes requests and never answers

	mu       sync.Mutex
	requests map[string]int
	bytes    map[string]int
}

func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	ours, theirs := net.Pipe()
	go n.serve(host, theirs)
	return ours, nil
}

// serve takes the requests of one connection.
func (n *network) serve(host string, conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(&counted{conn, n, host})
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.requests[host]++
		n.mu.Unlock()
		if n.answer[host] == nil {
			_, _ = in.ReadByte() // until the hub gives up
			return
		}
		w := httptest.NewRecorder()
		n.answer[host](w, r)
		resp := w.Result()
		resp.Request, resp.ContentLength = r, int64(w.Body.Len())
		if resp.Write(conn) != nil {
			return
		}
	}
}

// counted counts what is read of a connection.
type counted struct {
	net.Conn
	network *network
	host    string
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.network.bytes[c.host] += n
	return n, err
}

func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func namesTheHub(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", fmt.Sprintf("<http://%s%s>; rel=self, <%s>; rel=hub", r.Host, r.URL.RequestURI(), hubURL))
}

// cause sends one request of a stranger to a hub with all its rooms, lets it come to its end, and
// returns what reached the victim for it. The hub's clock runs as fast as it can.
func (n *network) cause(t *testing.T, raw, victim string) (requests, bytes int) {
	dialer, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	sender := wayOut(t, dialedOut{dialer, n.dial})
	defer sender.CloseIdleConnections()
	transport := sender.Transport()
	cfg := hub.Config{URL: hubURL}
	s := newStage(t, cfg, transport, anywhere{})
	verifier, err := hub.NewVerifier(cfg, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := &desk{kept: map[subscription.ID]subscription.Request{}}
	service, err := subscription.NewService(subscription.Config{}, kept, s.checker, verifier, nobody{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, cfg, service, transport)
	for shard := range subscription.Shard(subscription.Shards) {
		if err := service.Gained(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
	defer s.running(t)()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1"
	w := httptest.NewRecorder()
	s.hub.Handler().ServeHTTP(w, r)
	time.Sleep(2 * time.Hour)
	if w.Code >= 300 && w.Code != 403 && w.Code != 502 || kept.unsettled() > 0 || s.pings.waiting() > 0 {
		t.Errorf("%d %s; %d requests and %d pings are unsettled", w.Code, w.Body, kept.unsettled(), s.pings.waiting())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[victim], n.bytes[victim]
}

// rawForm is the shortest request with the form as its body.
func rawForm(form string) string {
	return fmt.Sprintf("POST /websub HTTP/1.1\r\nHost: hub.example\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", formType, len(form), form)
}

// TestAmplification checks docs/abuse.md: how much one request of a stranger makes the hub send to a
// server that wants none of it.
func TestAmplification(t *testing.T) {
	stated := statedAmplification(t)
	subscribe := rawForm("hub.mode=subscribe&hub.topic=http://t/&hub.callback=http://c/")
	unsubscribe := rawForm("hub.mode=unsubscribe&hub.topic=http://t/&hub.callback=http://c/")
	long := func(host string) string {
		return "http://" + host + "/" + strings.Repeat(";", 2048-len("http:///")-len(host))
	}
	one := rawForm("hub.mode=subscribe&hub.topic=http://c/&hub.callback=http://c/")
	ping := "hub.mode=publish&hub.url=http://t/1"
	publish := "POST /websub HTTP/1.1\r\nHost: hub.example\r\nContent-Type: a/b\r\nContent-Length: 1\r\nLink: <http://t/>;rel=self,<" + hubURL + ">;rel=hub\r\n\r\nx"
	type answers = map[string]http.HandlerFunc
	token := "&hub.verify_token=" + strings.Repeat(";", 512)
	for _, tt := range []struct {
		what, raw, victim string
		answer            answers
		base              string // a request with one topic less, whose effects are subtracted
	}{
		{"callback that confirms", unsubscribe, "c", answers{"c": echo}, ""},
		{"callback that refuses", unsubscribe, "c", answers{"c": status(404)}, ""},
		{"callback that does not answer", unsubscribe, "c", nil, ""},
		{"callback that does not answer, longest addresses", rawForm(
			"hub.mode=unsubscribe&hub.topic=" + long("t") + "&hub.callback=" + long("c"),
		), "c", nil, ""},
		{"callback that refuses, longest addresses", rawForm(
			"hub.mode=unsubscribe&hub.topic=" + long("t") + "&hub.callback=" + long("c"),
		), "c", answers{"c": status(404)}, ""},
		{"callback that does not answer, longest topic", rawForm(
			"hub.mode=unsubscribe&hub.topic=" + long("t") + "&hub.callback=http://c/",
		), "c", nil, ""},
		{"callback that does not answer, longest topic and hub.verify_token", rawForm(
			"hub.mode=unsubscribe&hub.topic=" + long("t") + "&hub.callback=http://c/" + token,
		), "c", nil, ""},
		{"callback that does not answer, longest hub.verify_token", rawForm(
			"hub.mode=unsubscribe&hub.topic=http://t/&hub.callback=http://c/" + token,
		), "c", nil, ""},
		{"denial, as the topic refuses", subscribe, "c", answers{"c": status(404), "t": status(404)}, ""},
		{"the same denial, to a callback that does not respond", subscribe, "c", answers{"t": status(404)}, ""},
		{"topic that names this hub", subscribe, "t", answers{"t": namesTheHub, "c": echo}, ""},
		{"topic that refuses", subscribe, "t", answers{"t": status(404), "c": echo}, ""},
		{"topic that answers 500", subscribe, "t", answers{"t": status(500), "c": echo}, ""},
		{"topic that does not answer", subscribe, "t", answers{"c": echo}, ""},
		{"topic and callback of one server, which answers 500", one, "c", answers{"c": status(500)}, ""},
		{"topic and callback of one server, which does not answer", one, "c", nil, ""},
		{"topic and callback of one server, which does not answer, longest topic", rawForm(
			"hub.mode=subscribe&hub.topic=" + long("c") + "&hub.callback=http://c/",
		), "c", nil, ""},
		{"topic of a publication that refuses", publish, "t", answers{"t": status(404)}, ""},
		{"topic of a ping that refuses", rawForm(ping), "t", answers{"t": status(404)}, ""},
		{"topic of a ping that does not answer", rawForm(ping), "t", nil, ""},
		{"each further topic of that ping", rawForm(ping + "&hub.url=http://t/2"), "t", nil, rawForm(ping)},
		{"each further topic of that ping, joined by a comma", rawForm(ping + ",http://t/2,http://t/3"), "t", nil, rawForm(ping + ",http://t/2")},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caused := func(raw string) (requests, bytes int) {
					n := &network{t: t, answer: tt.answer, requests: map[string]int{}, bytes: map[string]int{}}
					return n.cause(t, raw, tt.victim)
				}
				requests, bytes := caused(tt.raw)
				sent := len(tt.raw)
				if tt.base != "" {
					less, fewer := caused(tt.base)
					requests, bytes, sent = requests-less, bytes-fewer, sent-len(tt.base)
				}
				factor := float64(bytes) / float64(sent)
				t.Logf("| %s | %d | %.1f |  %d bytes for %d", tt.what, requests, math.Ceil(factor*10)/10, bytes, sent)
				said, ok := stated[tt.what]
				if !ok || requests != said.requests || factor > said.bytes || factor < said.bytes-0.2 {
					t.Errorf("docs/abuse.md says %+v (%v); it is %d requests, %.2f times the bytes", said, ok, requests, factor)
				}
				delete(stated, tt.what)
			})
		})
	}
	for what := range stated {
		t.Errorf("docs/abuse.md says something of %q that nothing shows", what)
	}
}

// TestAmplificationOverLoopback: the same on real connections.
func TestAmplificationOverLoopback(t *testing.T) {
	h := newHouse(t, nil)
	callback, requests := listen(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	body := "hub.mode=unsubscribe&hub.topic=" + h.topicURL + "/&hub.callback=" + callback
	h.post(t, 202, formType, body, "")
	sent := len(strings.Join(<-requests, "\r\n")) + len("\r\n\r\n")
	if most := statedAmplification(t)["callback that refuses"].bytes * float64(len(rawForm(body))); float64(sent) > most {
		t.Errorf("%d bytes were sent for %d, more than the %.0f that docs/abuse.md says", sent, len(rawForm(body)), most)
	}
}

type amplification struct {
	requests int
	bytes    float64
}

// statedAmplification reads the table of docs/abuse.md.
func statedAmplification(t *testing.T) map[string]amplification {
	t.Helper()
	text, err := os.ReadFile("../docs/abuse.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]amplification{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| (\d+) \| ([\d.]+) \|$`).FindAllStringSubmatch(string(text), -1) {
		requests, _ := strconv.Atoi(row[2])
		bytes, _ := strconv.ParseFloat(row[3], 64)
		stated[row[1]] = amplification{requests, bytes}
	}
	return stated
}
