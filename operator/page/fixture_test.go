package page_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"carillon/check"
	"carillon/delivery"
	"carillon/operator"
	"carillon/subscription"
)

const (
	worldTopics        = 1_234
	worldSubscriptions = 3_000
)

// newFixture is a desk of a busy hub: failing hosts, gaps, three processes, thousands of rows.
func newFixture() *fakeService {
	d := &fakeService{now: time.Now().UTC()}
	d.overview = worldOverview(d.now)
	for i := range worldTopics {
		t := operator.Topic{
			Topic: fmt.Sprintf("https://feeds.example.org/sets/%04d/change/", i), First: 100, Head: 100 + delivery.Seq(i*7%5000),
			Bytes: int64(i) * 77_345, Oldest: d.now.Add(-50 * time.Hour), Published: d.now.Add(-time.Duration(i*i) * time.Second),
			Subscriptions: 1 + i*37%900,
		}
		switch {
		case i == 1:
			t.Topic = hostileTopic
		case i == 2:
			t.Topic = "https://archive.example.net/" + strings.Repeat("a-very-long-part-of-a-path/", 12) + "change/?set=books&lang=%C3%A4"
		case i == 3:
			t.Subscriptions, t.Head, t.Failing, t.Behind, t.Bytes = 50_000, 1_234_567, 37, 2_112, 7_412_345_678
			t.First = t.Head - 300
		case i == 4:
			t.Head, t.First, t.Bytes, t.Published, t.Oldest = 0, 0, 0, time.Time{}, time.Time{}
		case i%11 == 0:
			t.Failing, t.Behind, t.Breaks = i%5, i%9+4, i%3
		}
		d.topics = append(d.topics, t)
	}
	d.subs = worldSubscribers(d)
	slices.SortFunc(d.topics, func(a, b operator.Topic) int { return strings.Compare(a.Topic, b.Topic) })
	d.sources = []operator.Source{
		{Name: "library", Prefixes: []string{
			"https://feeds.example.org/sets/", "https://archive.example.net/",
		}, Created: d.now.Add(-900 * time.Hour), Issued: d.now.Add(-30 * time.Hour)},
		{Name: "museum.of-a-very-long-name_that-fills-all-sixty-four-letters-here", Prefixes: []string{
			"https://museum.example/" + strings.Repeat("objects/", 14),
		}, Created: d.now, Issued: d.now},
	}
	d.checked = []operator.Checked{
		{Finding: &check.Finding{
			Level: check.Error, Clause: "core 11.2", URI: "https://feeds.example.org/manifest.xml", Line: 7, Element: "url[3]/loc",
			What: "loc is <script>alert(1)</script>", Mend: "Write one.",
		}},
		{Finding: &check.Finding{Level: check.Note, Clause: "limits", URI: "https://feeds.example.org/", What: "not all was looked at"}},
		{Summary: &check.Summary{Documents: 3, Requests: 9, Bytes: 12_345, Errors: 1, Warnings: 2}},
	}
	d.heard = []operator.TestEvent{
		{At: d.now, Kind: "waiting", Text: "The hub checks the topic."},
		{At: d.now, Kind: "verified", Text: "The subscription was verified; its lease is 1 h."},
		{
			At: d.now, Kind: "notification", Text: "Notification 57 arrived.", ID: notificationID(hostileTopic, 57).String(), ContentType: "application/xml",
			Links: []string{"<" + hostileTopic + `>; rel="self"`, `<http://127.0.0.1:8080/websub/>; rel="hub"`}, Bytes: 1_234,
			Signature: "sha256=4a3f… good", From: "2026-11-21T14:00:00Z", Until: "2026-11-21T14:05:00Z",
			Body: "<?xml version=\"1.0\"?>\n<urlset>\n  " + hostile + "\n</urlset>", BodyMore: true,
		},
	}
	return d
}

func worldSubscribers(d *fakeService) (all []operator.SubscriptionDetail) {
	for i := range worldSubscriptions {
		t := d.topics[i%len(d.topics)]
		host := fmt.Sprintf("https://sub%03d.example.com", i%400)
		callback := fmt.Sprintf("%s/hooks/%d?secret-path=%s", host, i, strings.Repeat("x", 60))
		s := operator.SubscriptionDetail{Callback: callback, Subscription: operator.Subscription{
			ID: subscription.NewID(t.Topic, callback), Topic: t.Topic, CallbackHost: host, State: operator.StateIdle, Process: "hub-b-7c9d1f",
			Signed: i%2 == 0, Created: d.now.Add(-70 * time.Hour), Expires: d.now.Add(time.Duration(i%240) * time.Hour), LeaseSeconds: float64(i%240) * 3600,
			Start: 99, Settled: t.Head, Head: t.Head,
		}}
		switch {
		case i%19 == 1:
			failing(&s, d.now, i)
		case i%23 == 2:
			s.State, s.LagSeconds, s.Settled, s.LagSince = operator.StateReady, 3, t.Head-min(t.Head, 1), d.now.Add(-3*time.Second)
		case i%31 == 3:
			s.State = operator.StateInFlight
		case i%41 == 4:
			s.State, s.Replay = operator.StateReady, &operator.Replay{Next: 120, Last: 188}
		}
		all = append(all, s)
	}
	for i := range 12 { // for the page of a notification
		s := all[i]
		s.CallbackHost = fmt.Sprintf("https://broken%d.example.com:8443", i)
		failing(&s, d.now, i)
		all[i] = s
	}
	slices.SortFunc(all, func(a, b operator.SubscriptionDetail) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all
}

func failing(s *operator.SubscriptionDetail, now time.Time, i int) {
	classes := []string{"timeout", "server_error", "tls", "dns", "client_error"}
	s.State, s.Gapped, s.Failures, s.LastClass = operator.StateFailing, true, 7, classes[i%len(classes)]
	if s.LastClass == "server_error" {
		s.LastStatus = 503
	}
	s.LagSince, s.LagSeconds, s.NextAttempt = now.Add(-2*time.Hour), 7200, now.Add(11*time.Minute)
	s.Settled -= min(s.Settled, 14)
	for n := range 12 {
		a := operator.Attempt{
			At: now.Add(-time.Duration(n*n*40) * time.Second), Seconds: 30.002, Seq: s.Settled + 1,
			Number: uint32(12 - n), Class: s.LastClass, Status: s.LastStatus, Error: hostile,
		}
		if n > 8 {
			a.Class, a.Status, a.Error, a.Seconds = "delivered", 204, "", 0.0423
		}
		s.Attempts = append(s.Attempts, a)
	}
	s.Gaps = []operator.Gap{
		{First: 140, Last: 143, Reason: "given_up", Class: "timeout", At: now.Add(-time.Hour)},
		{First: 120, Last: 120, Reason: "trimmed", At: now.Add(-30 * time.Hour)},
		{First: 101, Last: 109, Reason: "given_up", Class: "dns", At: now.Add(-60 * time.Hour), Replayed: now.Add(-50 * time.Hour)},
	}
}

func worldOverview(now time.Time) operator.Overview {
	o := operator.Overview{
		At: now, URL: "https://hub.example.org/websub/", Engine: "redis", Ready: true,
		Checks:   []operator.Check{{Name: "hub", Ready: true}, {Name: "store", Ready: true}, {Name: "deliveries", Ready: true}},
		Warnings: []string{"the certificate of the public listener ends in 6 days: renew it, and the hub takes the new one by itself"},
		Counts: operator.Counts{
			Topics: worldTopics, Subscriptions: 1_034_500, Behind: 2_240, Failing: 312, InFlight: 178, SlowAttempts: 12, Requests: 3,
			BodyBytes: 48_300_000, MaxBodyBytes: 268_435_456,
		},
		Connections: operator.Connections{
			Open: 30_178, Idle: 29_998, MaxOpen: 142_848, Hosts: 28_004, RememberedHosts: 6_112, IdleBytes: 402_653_184, MaxIdleBytes: 603_979_776,
			SessionBytes: 174_325_000, MaxSessionBytes: 201_326_592, Plain: 41, Full: 34_512, Resumed: 1_207_433, Dropped: 2_211,
		},
		LagSeconds: 7_261,
	}
	for p := range 3 {
		one := operator.Process{
			ID: fmt.Sprintf("hub-%c-7c9d1f", 'a'+p), Self: p == 0, Version: "0.6.0", Started: now.Add(-time.Duration(p*31+2) * time.Hour),
			Counts: operator.Counts{Subscriptions: 344_833, Behind: 700 + p, Failing: 104, InFlight: 59},
		}
		for s := p * 21; s < p*21+21; s++ {
			one.Shards = append(one.Shards, s)
		}
		o.Processes = append(o.Processes, one)
	}
	o.Processes[2].Shards, o.Processes[2].Loading = append(o.Processes[2].Shards, 63), 2
	for i := range 120 {
		wave := 1 + math.Sin(float64(i)/9)
		step := operator.Step{
			At: now.Add(-time.Duration(119-i) * 5 * time.Second), Seconds: 5, Published: int(22 * wave), Delivered: int(5200*wave) + i*11,
			Failed: map[string]int{"timeout": int(9 * wave), "server_error": i % 5}, Behind: int(1800*wave) + i,
			P50: 0.012 * (1 + wave/4), P90: 0.09 * (1 + wave), P99: 1.2 * (1 + wave*2),
		}
		if i%17 == 0 {
			step.Failed["tls"], step.Failed["dns"] = 1, 2
		}
		o.Series = append(o.Series, step)
	}
	return o
}

// newEmpty is a desk of a hub that has just begun.
func newEmpty() *fakeService {
	d := &fakeService{now: time.Now().UTC()}
	d.overview = operator.Overview{
		At: d.now, URL: "http://127.0.0.1:8080/websub/", Engine: "pebble", Ready: true, Checks: []operator.Check{{Name: "store", Ready: true}},
		Processes: []operator.Process{{ID: "self", Self: true, Version: "0.6.0", Started: d.now}},
	}
	for s := range 64 {
		d.overview.Processes[0].Shards = append(d.overview.Processes[0].Shards, s)
	}
	return d
}

// newTroubled is a world where a process does not answer.
func newTroubled() *fakeService {
	d := newFixture()
	d.missing = operator.Coverage{MissingShards: 22, Trouble: []string{"hub-c-7c9d1f: no answer in time"}}
	d.overview.Coverage, d.overview.Ready = d.missing, false
	d.overview.Processes = d.overview.Processes[:2]
	d.overview.Processes[1].StoreFailing = true
	d.overview.Checks[1] = operator.Check{Name: "store", Error: "no answer within 3s"}
	return d
}
