package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

// A disguise is a URL behind which a forbidden address may be. In it {port} is the
// port of the canaries and of the good server, {taken} one of another service, at which
// a canary listens as well.
type disguise struct {
	url string
	// meets is the outcome. bad and forbidden: refused at once (400, 403). later: taken, and then comes to
	// nothing. good: reaches the good server and no other. nowhere: no address is found to try.
	meets string
}

const (
	bad       = "bad"
	forbidden = "forbidden"
	later     = "later"
	good      = "good"
	nowhere   = "nowhere"
)

// disguises: one line each. Names are those of newTownNames.
var disguises = []disguise{
	// The control: allowed servers are reached, by address and by name.
	{"http://127.0.0.2:{port}/x", good},
	{"http://good.test:{port}/x", good},

	// Addresses as they are, and as they may be written.
	{"http://127.0.0.1:{port}/x", forbidden},
	{"http://127.0.0.1.:{port}/x", forbidden},
	{"http://127.9.9.9:{port}/x", forbidden},
	{"http://0.0.0.0:{port}/x", forbidden},
	{"http://10.0.0.1:{port}/x", forbidden},
	{"http://172.16.0.1:{port}/x", forbidden},
	{"http://192.168.1.1:{port}/x", forbidden},
	{"http://100.64.0.1:{port}/x", forbidden},
	{"http://169.254.169.254/latest/meta-data/", forbidden},
	{"http://224.0.0.1:{port}/x", forbidden},
	{"http://240.0.0.1:{port}/x", forbidden},
	{"http://255.255.255.255:{port}/x", forbidden},
	{"http://192.0.2.1:{port}/x", forbidden},
	{"http://198.18.0.1:{port}/x", forbidden},
	{"http://[::1]:{port}/x", forbidden},
	{"http://[0:0:0:0:0:0:0:1]:{port}/x", forbidden},
	{"http://[::]:{port}/x", forbidden},
	{"http://[::ffff:127.0.0.1]:{port}/x", forbidden},
	{"http://[::ffff:7f00:1]:{port}/x", forbidden},
	{"http://[::127.0.0.1]:{port}/x", forbidden},
	{"http://[::ffff:0:127.0.0.1]:{port}/x", forbidden},
	{"http://[64:ff9b::127.0.0.1]:{port}/x", forbidden},
	{"http://[64:ff9b:1::7f00:1]:{port}/x", forbidden},
	{"http://[2002:7f00:1::]:{port}/x", forbidden},
	{"http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:{port}/x", forbidden},
	{"http://[2606:2800:220:1:0:5efe:7f00:1]:{port}/x", forbidden},
	{"http://[fe80::1]:{port}/x", forbidden},
	{"http://[fe80::1%25lo]:{port}/x", forbidden},
	{"http://[::1%25lo]:{port}/x", forbidden},
	{"http://[fd00::1]:{port}/x", forbidden},
	{"http://[fec0::1]:{port}/x", forbidden},
	{"http://[ff02::1]:{port}/x", forbidden},
	{"http://[2001:db8::1]:{port}/x", forbidden},
	{"http://[3fff::1]:{port}/x", forbidden},

	// Spellings that some take for addresses.
	{"http://127.1:{port}/x", bad},
	{"http://127.0.1:{port}/x", bad},
	{"http://2130706433:{port}/x", bad},
	{"http://017700000001:{port}/x", bad},
	{"http://0x7f000001:{port}/x", bad},
	{"http://0x7f.1:{port}/x", bad},
	{"http://0X7F.0.0.0x1:{port}/x", bad},
	{"http://0177.0.0.1:{port}/x", bad},
	{"http://127.0.0.1..:{port}/x", bad},
	{"http://0:{port}/x", bad},
	{"http://\uff11\uff12\uff17.\uff10.\uff10.\uff11:{port}/x", bad}, // full-width
	{"http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460:{port}/x", bad}, // circled
	{"http://127\u30020\u30020\u30021:{port}/x", bad},                // ideographic full stops
	{"http://127\uff0e0\uff0e0\uff0e1:{port}/x", bad},                // full-width dots
	{"http://\uff10\uff58\uff17\uff46.1:{port}/x", bad},              // full-width 0x7f
	{"http://%31%32%37.0.0.1:{port}/x", bad},
	{"http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1:{port}/x", bad},
	{"http://127.0.0.1%00.good.test:{port}/x", bad},
	{"http://[127.0.0.1]:{port}/x", bad},
	{"http://::1:{port}/x", bad},

	// This machine by name.
	{"http://localhost:{port}/x", forbidden},
	{"http://LOCALHOST.:{port}/x", forbidden},
	{"http://any.localhost:{port}/x", forbidden},
	{"http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3:{port}/x", bad},

	// Parts before or behind the host.
	{"http://user@127.0.0.1:{port}/x", bad},
	{"http://user:pass@good.test:{port}/x", bad},
	{"http://good.test@127.0.0.1:{port}/x", bad},
	{"http://good.test:{port}@127.0.0.1:{port}/x", bad},
	{"http://127.0.0.1:{port}\\@good.test:{port}/x", bad},
	{"http://good.test\\.127.0.0.1:{port}/x", bad},
	{"http://good.test:{port}#@127.0.0.1:{port}/x", bad},
	{"http://good.test:{port}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", bad},
	{"http://good.test%0d%0a127.0.0.1:{port}/x", bad},

	// Other schemes.
	{"//127.0.0.1:{port}/x", bad},
	{"ftp://127.0.0.1:{port}/x", bad},
	{"gopher://127.0.0.1:{port}/_x", bad},
	{"file:///etc/passwd", bad},
	{"unix:///run/docker.sock", bad},
	{"ws://127.0.0.1:{port}/x", bad},
	{"http:127.0.0.1:{port}/x", bad},
	{"http:///127.0.0.1:{port}/x", bad},
	{"HTTPS://127.0.0.1:{port}/x", forbidden},

	// Ports of others, at an address that is allowed.
	{"http://127.0.0.2:{taken}/x", forbidden},
	{"http://good.test:{taken}/x", forbidden},
	{"https://good.test:{taken}/x", forbidden},
	{"http://good.test:22/x", forbidden},
	{"http://good.test:0/x", bad},
	{"http://good.test:65616/x", bad},

	// Names.
	{"http://a.test:{port}/x", later},
	{"http://A.TEST.:{port}/x", later},
	{"https://a.test:{port}/x", later},
	{"http://aaaa.test:{port}/x", later},
	{"http://cname.test:{port}/x", later},
	{"http://mapped.test:{port}/x", later},
	{"http://nat64.test:{port}/x", later},
	{"http://6to4.test:{port}/x", later},
	{"http://private.test:{port}/x", later},
	{"http://metadata.test/latest/meta-data/", later},
	{"http://unspecified.test:{port}/x", later},
	{"http://unspecified6.test:{port}/x", later},
	{"http://all-bad.test:{port}/x", later},
	{"http://127.0.0.1.wild.test:{port}/x", later},
	{"http://b\u00fccher.test:{port}/x", bad},
	{"http://xn--bcher-kva.test:{port}/x", later},
	{"http://g\u00adood.test:{port}/x", bad}, // an invisible letter
	{"http://g%C2%ADood.test:{port}/x", bad},
	// Of several addresses the good one is dialed, and no other.
	{"http://mixed.test:{port}/x", good},
	{"http://mixed6.test:{port}/x", good},

	// Redirects of the good server to a canary: the hub follows none.
	{"http://good.test:{port}/redirect/301", later},
	{"http://good.test:{port}/redirect/302", later},
	{"http://good.test:{port}/redirect/303", later},
	{"http://good.test:{port}/redirect/307", later},
	{"http://good.test:{port}/redirect/308", later},
	{"http://good.test:{port}/redirect/refresh", later},
}

// TestDisguises sends forbidden addresses in every disguise, in every place of a request that takes a
// URL. Each gets the outcome in the table, and no connection.
func TestDisguises(t *testing.T) {
	t.Parallel()
	hosts := newNetwork(t)
	hub := hosts.startHub(t, "--allow-net", "127.0.0.2/32")
	t.Logf("%-62s %-28s %-28s %-9s %s", "URL", "as callback", "as topic", "published", "pinged")
	for i, d := range disguises {
		at := hosts.url(d.url)
		as := []string{
			hub.asCallback(t, i, at, d.meets), hub.asTopic(t, i, at, d.meets),
			hub.asPublished(t, at, d.meets), hub.asPinged(t, i, at, d.meets),
		}
		t.Logf("%-62q %-28s %-28s %-9s %s", strings.ReplaceAll(d.url, "{port}", "P"), as[0], as[1], as[2], as[3])
		if n := hosts.canary.count(); n != 0 {
			t.Fatalf("%s: the canary saw %d connections", at, n)
		}
	}
	t.Logf("%d disguises, each in four places; connections that the canary saw: %d", len(disguises), hosts.canary.count())
}

// TestCanarySings: where the addresses are allowed, the same disguises in the same places
// do reach the canary; so its silence above means something.
func TestCanarySings(t *testing.T) {
	t.Parallel()
	hosts := newNetwork(t)
	hub := hosts.startHub(t, "--allow-net", "127.0.0.0/8", "--allow-net", "::1/128", "--allow-port", "1-65535")
	for _, raw := range []string{
		"http://127.0.0.1:{port}/x", "http://[::1]:{port}/x", "http://[::ffff:127.0.0.1]:{port}/x", "http://127.0.0.2:{taken}/x",
		"http://a.test:{port}/x", "http://aaaa.test:{port}/x", "http://cname.test:{port}/x",
		"http://all-bad.test:{port}/x",
	} {
		for place, send := range map[string]func(at string) string{
			"callback":  func(at string) string { return hub.subscribe(t, hosts.topic("sings"), at) },
			"topic":     func(at string) string { return hub.subscribe(t, at, hosts.callback("sings")) },
			"published": func(at string) string { return hub.publish(t, at) },
			"pinged":    func(at string) string { return hub.ping(t, at) },
		} {
			before := hosts.canary.count()
			status := send(hosts.url(strings.TrimSuffix(raw, "x") + place)) // a topic of its own: checks are remembered
			hosts.canary.awaitMore(t, before, fmt.Sprintf("%s as %s (%s)", raw, place, status))
		}
	}
}

// Names that change their mind after they were looked at: the address is judged each time
// that it is dialed.
func TestRebindingReachesNobody(t *testing.T) {
	t.Parallel()
	hosts := newNetwork(t)
	hub := hosts.startHub(t, "--allow-net", "127.0.0.2/32")
	at := func(path string) string { return hosts.url("http://turns.test:{port}" + path) }

	// Verified, then turned: the delivery reaches no server.
	hosts.names.turn("turns.test.", "127.0.0.2")
	callback, topic := at("/callback/turned"), hosts.topic("turned")
	hub.mustBeActive(t, topic, callback)
	hosts.names.turn("turns.test.", "127.0.0.1")
	if status := hub.publish(t, topic); status != "200" {
		t.Fatalf("publishing: %s", status)
	}
	line := hub.log.await(t, "a delivery failed")
	if !strings.Contains(line, "class=forbidden") {
		t.Errorf("the delivery ended with %s", line)
	}

	// The topic's check was good, then it turned: the fetch of a ping reaches no server.
	hosts.names.turn("turns.test.", "127.0.0.2")
	topic = at("/topic/turned")
	hub.mustBeActive(t, topic, hosts.callback("of-turned"))
	hosts.names.turn("turns.test.", "127.0.0.1")
	if status := hub.ping(t, topic); status != "204" {
		t.Fatalf("pinging: %s", status)
	}
	hub.log.await(t, "pinged topic not distributed", topic)
	if n := hosts.canary.count(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
	if n := hosts.served.Load(); n == 0 {
		t.Error("the good server saw none: the test tests nothing")
	}
}

// A callback that was confirmed and answers deliveries with a redirect is not followed.
func TestDeliveriesFollowNoRedirect(t *testing.T) {
	t.Parallel()
	hosts := newNetwork(t)
	hub := hosts.startHub(t, "--allow-net", "127.0.0.2/32")
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		topic := hosts.topic("redirects-" + status)
		hub.mustBeActive(t, topic, hosts.url("http://good.test:{port}/turncoat/"+status))
		if got := hub.publish(t, topic); got != "200" {
			t.Fatalf("publishing: %s", got)
		}
		hub.log.await(t, "a delivery failed", "class=redirect", "status="+status)
	}
	if n := hosts.canary.count(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// networkHub is a hub in the test's own process, with a URL that is not loopback.
type networkHub struct {
	*network
	address string
	log     *lines
}

const townURL = "http://hub.test/websub/"

func (w *network) startHub(t *testing.T, args ...string) *networkHub {
	t.Helper()
	c := commands{Serve: serveCommand{open: openHub}}
	args = append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", townURL, "--store", "pebble:" + t.TempDir(),
	}, args...)
	if _, err := program.Read("hub", summary, &c, args, t.Output()); err != nil {
		t.Fatal(err)
	}
	c.Serve.resolver = w.names.resolver()
	log := newLines()
	h, err := c.Serve.start(t.Context(), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
		}
		h.close()
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the hub ended with %v", err)
	}
	return &networkHub{w, "http://" + h.public.Addr().String() + "/websub/", log}
}

// status sends a form and returns the status of the answer.
func (h *networkHub) status(t *testing.T, form url.Values) string {
	t.Helper()
	status, body, err := answer(http.PostForm(h.address, form))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(body, "127.0.0") || strings.Contains(body, "::1") {
		t.Errorf("the answer tells an address: %s", body)
	}
	return fmt.Sprint(status)
}

func (h *networkHub) subscribe(t *testing.T, topic, callback string) string {
	t.Helper()
	return h.status(t, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}})
}

func (h *networkHub) ping(t *testing.T, topic string) string {
	t.Helper()
	return h.status(t, url.Values{"hub.mode": {"publish"}, "hub.url": {topic}})
}

func (h *networkHub) publish(t *testing.T, topic string) string {
	t.Helper()
	if strings.ContainsAny(topic, "\r\n") {
		return "400" // no header can have it
	}
	status, body, err := publishAt(h.address, townURL, topic, "text/plain", "x")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(body, "127.0.0") || strings.Contains(body, "::1") {
		t.Errorf("the answer tells an address: %s", body)
	}
	return fmt.Sprint(status)
}

// mustBeActive subscribes and waits until it is confirmed.
func (h *networkHub) mustBeActive(t *testing.T, topic, callback string) {
	t.Helper()
	if status := h.subscribe(t, topic, callback); status != "202" {
		t.Fatalf("subscribing: %s", status)
	}
	if line := h.log.await(t, "request settled", topic); !strings.Contains(line, "outcome=activated") {
		t.Fatalf("the subscription was not confirmed: %s", line)
	}
}

// saidAtOnce are the statuses of what is refused at once.
var saidAtOnce = map[string]string{bad: "400", forbidden: "403"}

// asCallback subscribes with the URL as callback and reports the outcome of it.
func (h *networkHub) asCallback(t *testing.T, i int, callback, meets string) string {
	t.Helper()
	topic := h.topic(fmt.Sprintf("of-%d", i))
	status := h.subscribe(t, topic, callback)
	if want := cmp.Or(saidAtOnce[meets], "202"); status != want {
		t.Errorf("%q as callback: %s, want %s", callback, status, want)
	}
	switch {
	case status != "202":
		return status
	case meets == nowhere:
		h.log.await(t, "callback did not answer, will be asked again", topic+" ")
		return "202, then no answer"
	}
	line := h.log.await(t, "msg=\"request settled\"", topic+" ")
	outcome := valueOf(line, "outcome")
	if want := map[string]string{later: "no_intent", good: "activated"}[meets]; outcome != want {
		t.Errorf("%q as callback: %s, want %s", callback, outcome, want)
	}
	return "202, then " + outcome
}

// asTopic subscribes to the URL and reports what its callback heard of it.
func (h *networkHub) asTopic(t *testing.T, i int, topic, meets string) string {
	t.Helper()
	name := fmt.Sprintf("heard-%d", i)
	status := h.subscribe(t, topic, h.callback(name))
	if want := cmp.Or(saidAtOnce[meets], "202"); status != want {
		t.Errorf("%q as topic: %s, want %s", topic, status, want)
	}
	switch {
	case status != "202":
		return status
	case meets == nowhere:
		h.log.await(t, "topic check got no answer, will be repeated", topic+" ")
		return "202, then no answer"
	}
	mode := h.query(t, name)
	if want := map[string]string{later: "denied", good: "subscribe"}[meets]; mode != want {
		t.Errorf("%q as topic: its callback heard %s, want %s", topic, mode, want)
	}
	return "202, then " + mode
}

// asPublished publishes with the URL as topic.
func (h *networkHub) asPublished(t *testing.T, topic, meets string) string {
	t.Helper()
	status := h.publish(t, topic)
	if want := cmp.Or(saidAtOnce[meets], map[string]string{later: "403", good: "200", nowhere: "502"}[meets]); status != want {
		t.Errorf("%q as published topic: %s, want %s", topic, status, want)
	}
	return status
}

// asPinged pings the URL and reports the outcome of its fetch.
func (h *networkHub) asPinged(t *testing.T, i int, topic, meets string) string {
	t.Helper()
	status := h.ping(t, topic)
	if want := cmp.Or(saidAtOnce[meets], "204"); status != want {
		t.Errorf("%q as pinged topic: %s, want %s", topic, status, want)
	}
	switch {
	case status != "204":
		return status
	case meets == good:
		h.delivered(t, fmt.Sprintf("heard-%d", i))
		return "204, then fetched"
	case meets == nowhere:
		h.log.await(t, "fetching a pinged topic failed", "topic="+topic+" ")
		return "204, then no answer"
	}
	h.log.await(t, "pinged topic not distributed", "topic="+topic+" ")
	return "204, then nothing"
}
