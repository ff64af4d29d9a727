package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/delivery/dispatch"
	"carillon/internal/redistest"
	"carillon/internal/weblink"
	"carillon/payload"
)

// A notification that a hub gave up can be read from its memory, whose address is in the answer to the
// subscription request. That also works after the end of the subscription, and after a restart.
func TestGivenUpIsRemembered(t *testing.T) {
	t.Run("pebble", func(t *testing.T) { t.Parallel(); givenUpIsRemembered(t, "pebble:"+t.TempDir()) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); givenUpIsRemembered(t, redistest.Start(t).URL()) })
}

func givenUpIsRemembered(t *testing.T, store string) {
	r := newRound(t, store, "--retry-first", "1ms", "--retry-max", "1ms", "--retry-for", "100ms")
	p := startHub(t, r.args...)
	resp, err := http.PostForm(r.hub, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic}, "hub.callback": {r.sink.callbackURL("one")}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	links, err := weblink.Parse(resp.Header.Values("Link"))
	memory := weblink.Find(links, "archives")
	if err != nil || len(memory) != 1 || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("the answer is %s with %v, %v", resp.Status, resp.Header, err)
	}
	r.sink.await(t, "the verification", func() bool { return r.sink.verified["one"] > 0 })

	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	publish := func(n int) {
		t.Helper()
		if status, text, err := publish(r.hub, r.topic, "application/xml", changeAt(t, at(n), at(n+1), n)); err != nil || status != http.StatusOK {
			t.Fatalf("publishing %d: %d %q %v", n, status, text, err)
		}
	}
	publish(0)
	r.sink.await(t, "the first notification", func() bool { return len(r.sink.got["one"]) == 1 })
	r.sink.setBroken("one", true)
	publish(1)
	publish(2)
	// They are one gap or two.
	eventually(t, "two notifications to be given up", func() bool {
		_, text := look(p.ready["admin"], "/metrics")
		return strings.Contains(text, "carillon_delivery_behind 0\n") && !strings.Contains(text, `carillon_delivery_gaps_total{reason="given_up"} 0`)
	})
	r.sink.setBroken("one", false)
	publish(3)
	r.sink.await(t, "the last notification", func() bool { return len(r.sink.got["one"]) == 2 })

	missed := func() {
		t.Helper()
		told := readChanges(t, memory[0].URI+"&from="+payload.FormatDatetime(at(1)))
		if told != "1 2 3 until "+payload.FormatDatetime(at(4)) {
			t.Errorf("the memory tells of %s", told)
		}
	}
	missed()
	if err := p.stop(t); err != nil {
		t.Fatalf("the hub ended with %v\n%s", err, p.log)
	}
	p = startHub(t, r.args...)
	missed()
	if told := readChanges(t, memory[0].URI+"&from="+payload.FormatDatetime(at(4))); told != "until "+payload.FormatDatetime(at(4)) {
		t.Errorf("with nothing newer the memory tells of %s", told)
	}
	if err := p.stop(t); err != nil {
		t.Fatalf("the hub ended with %v\n%s", err, p.log)
	}
}

// changeAt is a notification with one change, of a resource with a number.
func changeAt(t *testing.T, from, until time.Time, n int) string {
	t.Helper()
	var b bytes.Buffer
	w, err := payload.NewNotificationWriter(&b, payload.Interval{From: from, Until: until}, "")
	if err == nil {
		err = w.Write(&payload.Entry{Loc: fmt.Sprintf("https://source.example/%d", n), Change: payload.Updated, Datetime: from})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// readChanges returns the numbers of the changed resources of a Change List, and its until.
func readChanges(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	in := payload.NewReader(resp.Body, payload.Limits{})
	var told strings.Builder
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		told.WriteString(strings.TrimPrefix(e.Loc, "https://source.example/") + " ")
	}
	head, err := in.Header()
	if err != nil || head.Capability != payload.CapChangeList {
		t.Fatalf("it begins with %+v, %v", head, err)
	}
	return told.String() + "until " + head.Until
}

// The bounds of the memory follow --retry-for, --keep-bytes and the engine.
func TestWhatIsRemembered(t *testing.T) {
	t.Parallel()
	const gibi = 1 << 30
	for args, want := range map[string]dispatch.Config{
		"--log-level=info":                            {RememberFor: 96 * time.Hour, RememberBytes: gibi},
		"--retry-for=1h":                              {RememberFor: 25 * time.Hour, RememberBytes: gibi},
		"--retry-for=2562047h":                        {RememberFor: 1 << 62, RememberBytes: gibi},
		"--keep-bytes=0":                              {RememberFor: 96 * time.Hour, RememberBytes: gibi},
		"--keep-bytes=50MB":                           {RememberFor: 96 * time.Hour, RememberBytes: 5_000_000},
		"--store=redis://localhost/0":                 {RememberFor: 96 * time.Hour, RememberBytes: 64 << 20},
		"--store=redis://localhost --keep-bytes=50MB": {RememberFor: 96 * time.Hour, RememberBytes: 5_000_000},
		"--store=redis://localhost --change-memory-bytes=2GiB --change-memory-for=10m": {RememberFor: 10 * time.Minute, RememberBytes: 2 * gibi},
		"--change-memory-for=0": {RememberBytes: gibi},
		"--change-memory=false --change-memory-for=1h --change-memory-bytes=1GB": {},
	} {
		got := deliveryConfig(t, strings.Fields(args)...)
		if got.RememberFor != want.RememberFor || got.RememberBytes != want.RememberBytes {
			t.Errorf("%s: %s, %d bytes; want %s, %d", args, got.RememberFor, got.RememberBytes, want.RememberFor, want.RememberBytes)
		}
	}
	for flag, value := range map[string]string{"change-memory-for": "-1s", "change-memory-bytes": "999999"} {
		if line := problemOf(t, flag, value); line == "" {
			t.Errorf("--%s=%s is taken", flag, value)
		}
	}
}
