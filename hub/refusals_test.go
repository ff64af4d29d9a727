package hub_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/hub"
	"carillon/subscription"
	"carillon/topic"
)

// form encodes names and values.
func form(namesAndValues ...string) string {
	var parts []string
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		parts = append(parts, namesAndValues[i]+"="+url.QueryEscape(namesAndValues[i+1]))
	}
	return strings.Join(parts, "&")
}

const (
	aTopic    = "http://127.0.0.1:9/topic"
	aCallback = "http://127.0.0.1:9/callback"
)

func TestFormRefusals(t *testing.T) {
	w := newTown(t, nil)
	with := func(namesAndValues ...string) string {
		return form("hub.mode", "subscribe") + "&" + form(namesAndValues...)
	}
	both := func(more ...string) string {
		return with(append([]string{"hub.topic", aTopic, "hub.callback", aCallback}, more...)...)
	}
	topic := func(u string) string { return with("hub.topic", u, "hub.callback", aCallback) }
	callback := func(u string) string { return with("hub.topic", aTopic, "hub.callback", u) }
	many := "hub.mode=publish"
	for i := range 1001 {
		many += fmt.Sprintf("&hub.url=http%%3A%%2F%%2F127.0.0.1%%3A9%%2F%d", i)
	}
	tests := []struct {
		name, body string
		status     int
		says       string
	}{
		{"empty", "", 400, "hub.mode is missing"},
		{"unknown mode", form("hub.mode", "Subscribe"), 400, "hub.mode must be"},
		{"two modes", "hub.mode=subscribe&hub.mode=unsubscribe", 400, "hub.mode is given more than once"},
		{"no callback", with("hub.topic", aTopic), 400, "hub.callback is missing"},
		{"empty callback", with("hub.topic", aTopic, "hub.callback", ""), 400, "hub.callback is missing"},
		{"no topic", with("hub.callback", aCallback), 400, "hub.topic is missing"},
		{"two topics", both("hub.topic", aTopic+"2"), 400, "hub.topic is given more than once"},
		{"two secrets", both("hub.secret", "a", "hub.secret", "b"), 400, "hub.secret is given more than once"},
		{"relative topic", topic("/topic"), 400, "hub.topic must be an absolute URL"},
		{"ftp topic", topic("ftp://127.0.0.1/x"), 400, "hub.topic must be an absolute URL"},
		{"topic without host", topic("http:///x"), 400, "hub.topic must be an absolute URL"},
		{"topic with fragment", topic(aTopic + "#a"), 400, "hub.topic must not have a fragment"},
		{"topic with empty fragment", topic(aTopic + "#"), 400, "hub.topic must not have a fragment"},
		{"topic with userinfo", topic("http://me:pw@127.0.0.1/x"), 400, "hub.topic must not contain a user name"},
		{"topic with space", topic(aTopic + "/a b"), 400, "hub.topic contains spaces"},
		{"topic with line break", topic(aTopic + "/a\r\nX: y"), 400, "hub.topic contains spaces, control characters"},
		{"topic with links of its own", topic(aTopic + "/x>;rel=self,<http://x/"), 400, "hub.topic contains spaces"},
		{"callback with quotes", callback(aCallback + "?\""), 400, "hub.callback contains spaces"},
		{"topic with broken escape", topic(aTopic + "/%zz"), 400, "hub.topic is not a URL"},
		{"long topic", topic(aTopic + strings.Repeat("a", 2048)), 400, "hub.topic is longer than 2048 bytes"},
		{"topic with bad port", topic("http://127.0.0.1:99999/"), 400, "hub.topic must have a port between"},
		{"private topic", topic("http://192.168.1.1/"), 403, "hub.topic is in a network"},
		{"relative callback", callback("cb"), 400, "hub.callback must be an absolute URL"},
		{"callback with fragment", callback(aCallback + "#x"), 400, "hub.callback must not have a fragment"},
		{"callback with userinfo", callback("http://me@127.0.0.1/"), 400, "hub.callback must not contain a user name"},
		{"private callback", callback("http://10.1.2.3/"), 403, "hub.callback is in a network"},
		{"metadata callback", callback("http://169.254.169.254/latest"), 403, "hub.callback is in a network"},
		{"private IPv6 callback", callback("http://[fd00::1]/"), 403, "hub.callback is in a network"},
		{"secret of 200 bytes", both("hub.secret", strings.Repeat("x", 200)), 400, "hub.secret must be less than 200 bytes"},
		{"secret of 200 bytes in 100 characters", both("hub.secret", strings.Repeat("ä", 100)), 400, "hub.secret must be less than 200 bytes"},
		{"secret not UTF-8", both() + "&hub.secret=%ff", 400, "hub.secret is not form-encoded UTF-8"},
		{"verify token of 513 bytes", both("hub.verify_token", strings.Repeat("x", 513)), 400, "hub.verify_token must be at most 512 bytes"},
		{"two verify tokens", both("hub.verify_token", "a", "hub.verify_token", "b"), 400, "hub.verify_token is given more than once"},
		{"verify token not UTF-8", both() + "&hub.verify_token=%ff", 400, "hub.verify_token is not form-encoded UTF-8"},
		{"topic not UTF-8", with("hub.callback", aCallback) + "&hub.topic=%c3%28", 400, "hub.topic is not form-encoded UTF-8"},
		{"callback with a broken escape", with("hub.topic", aTopic) + "&hub.callback=%4", 400, "hub.callback is not form-encoded"},
		{"lease 0", both("hub.lease_seconds", "0"), 400, "hub.lease_seconds must be greater than 0"},
		{"negative lease", both("hub.lease_seconds", "-1"), 400, "hub.lease_seconds must be a positive whole number"},
		{"fractional lease", both("hub.lease_seconds", "1.5"), 400, "hub.lease_seconds must be a positive whole number"},
		{"lease in words", both("hub.lease_seconds", "ten"), 400, "hub.lease_seconds must be a positive whole number"},
		{"lease not UTF-8", both() + "&hub.lease_seconds=%ff", 400, "hub.lease_seconds must be a positive whole number"},
		{"two leases", both("hub.lease_seconds", "1", "hub.lease_seconds", "2"), 400, "hub.lease_seconds is given more than once"},
		{"ping without topic", "hub.mode=publish&hub.url=", 400, "hub.url is missing"},
		{"ping for a relative topic", form("hub.mode", "publish", "hub.url", "x"), 400, "hub.url must be an absolute URL"},
		{"ping for a topic with links of its own", form(
			"hub.mode", "publish", "hub.url", aTopic+">;rel=self,<http://x/",
		), 400, "hub.url contains spaces"},
		{"ping for a private topic", form("hub.mode", "publish", "hub.topic", "http://10.0.0.1/"), 403, "hub.topic is in a network"},
		{"ping for too many topics", many, 400, "more than 1000 topics"},
		{"too long", "x=" + strings.Repeat("a", 1<<20), 413, "longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, header, body := w.post(t, formType, tt.body)
			wantRefusal(t, status, header, body, tt.status, tt.says)
		})
	}
	if len(w.requests.wishes) > 0 || w.pings.waiting() > 0 {
		t.Errorf("something was accepted: %v, %d pings", w.requests.wishes, w.pings.waiting())
	}
}

func wantRefusal(t *testing.T, status int, header http.Header, body string, want int, says string) {
	t.Helper()
	if status != want || !strings.Contains(body, says) {
		t.Errorf("%d %q, want %d with %q", status, body, want, says)
	}
	if ct := header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %q", ct)
	}
	if header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("no nosniff")
	}
	if strings.Count(body, "\n") != 1 || len(body) > 400 {
		t.Errorf("the message is not one short line: %q", body)
	}
}

func TestPublishRefusals(t *testing.T) {
	w := newTown(t, func(c *hub.Config) { c.MaxBody, c.MaxLinks, c.MaxLinkBytes = 100, 3, 300 })
	self := fmt.Sprintf(`Link: <%s/good>; rel="self"`, w.topicURL)
	this := fmt.Sprintf(`Link: <%s>; rel="hub"`, w.hubURL)
	links := []string{self, this}
	more := func(more ...string) []string { return append([]string{self, this}, more...) }
	tests := []struct {
		name, contentType, body string
		header                  []string
		status                  int
		says                    string
	}{
		{"no Content-Type", "", "x", links, 415, "Exactly one Content-Type"},
		{"broken Content-Type", "text/plain; =", "x", links, 415, "not a media type"},
		{"half a Content-Type", "text", "x", links, 415, "not a media type"},
		{"gzip", "text/plain", "x", more("Content-Encoding: gzip"), 415, "Content-Encoding is not supported"},
		{"form in another charset", formType + "; charset=iso-8859-1", "hub.mode=publish", nil, 415, "must be in UTF-8"},
		{"long type", "text/plain; x=" + strings.Repeat("A", 300), "x", []string{self, this}, 400, "Content-Type must be"},
		{"type that acts on a terminal", "text/plain; x=\"\u009b31m\"", "x", []string{self, this}, 400, "Content-Type must be"},
		{"no self", "text/plain", "x", []string{this}, 400, "rel=self is missing"},
		{"self is about another resource", "text/plain", "x", []string{
			this, self + "; anchor=\"http://127.0.0.1/other\"",
		}, 400, "rel=self is missing"},
		{"two selves", "text/plain", "x", more(`Link: <http://127.0.0.1:9/>; rel="self"`), 400, "more than one rel=self"},
		{"no hub", "text/plain", "x", []string{self}, 400, "no rel=hub that is this hub"},
		{"unreadable links", "text/plain", "x", []string{"Link: self, hub"}, 400, "rel=self is missing"},
		{"relative self", "text/plain", "x", []string{this, `Link: </good>; rel="self"`}, 400, "Link rel=self must be an absolute URL"},
		{"self with fragment", "text/plain", "x", []string{
			this, `Link: <http://127.0.0.1:9/#a>; rel="self"`,
		}, 400, "Link rel=self must not have a fragment"},
		{"self with userinfo", "text/plain", "x", []string{
			this, `Link: <http://u@127.0.0.1:9/>; rel="self"`,
		}, 400, "Link rel=self must not contain a user"},
		{"private self", "text/plain", "x", []string{this, `Link: <http://10.0.0.1/>; rel="self"`}, 403, "Link rel=self is in a network"},
		{"relative further link", "text/plain", "x", more(`Link: </up>; rel="up"`), 400, "not absolute"},
		{"too many further links", "text/plain", "x", more(
			`Link: <urn:a>; rel=a, <urn:b>; rel=b, <urn:c>; rel=c, <urn:d>; rel=d`,
		), 400, "more than 3 further links"},
		{"too long further links", "text/plain", "x", more(`Link: <urn:` + strings.Repeat("a", 300) + `>; rel=a`), 400, "more than 300 bytes"},
		{"empty", "text/plain", "", links, 400, "The body is empty"},
		{"too long", "text/plain", strings.Repeat("x", 101), links, 413, "longer than 100 bytes"},
		{"topic without links", "text/plain", "x", []string{
			this, fmt.Sprintf(`Link: <%s/bare>; rel="self"`, w.topicURL),
		}, 403, "no link with rel=self"},
		{"topic that is not there", "text/plain", "x", []string{this, fmt.Sprintf(`Link: <%s/nothing>; rel="self"`, w.topicURL)}, 403, "status 404"},
		{"topic's server is not there", "text/plain", "x", []string{this, `Link: <http://127.0.0.1:1/>; rel="self"`}, 502, "did not answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, header, body := w.post(t, tt.contentType, tt.body, tt.header...)
			wantRefusal(t, status, header, body, tt.status, tt.says)
		})
	}
	if got := w.publisher.all(); len(got) > 0 {
		t.Errorf("something was published: %v", got)
	}
}

// TestOwnTrouble checks answers to the hub's own faults: 503 with Retry-After where a retry helps, 429
// where too many pings wait, and nothing of its inside.
func TestOwnTrouble(t *testing.T) {
	inside := "pebble: /var/lib/secret"
	tests := []struct {
		err    error
		status int
		ping   int
		retry  string
	}{
		{fmt.Errorf("%w: %s", subscription.ErrUnavailable, inside), 503, 503, "5"},
		{fmt.Errorf("%w: %s", subscription.ErrBusy, inside), 503, 429, "5"},
		{fmt.Errorf("%w: %s", context.DeadlineExceeded, inside), 503, 503, "5"},
		{fmt.Errorf("%w: %s", context.Canceled, inside), 503, 503, "5"},
		{errors.New(inside), 500, 500, ""},
	}
	w := newTown(t, nil)
	link := fmt.Sprintf(`Link: <%s/good>; rel="self", <%s>; rel="hub"`, w.topicURL, w.hubURL)
	for _, tt := range tests {
		w.requests.fail(tt.err)
		w.publisher.fail(tt.err)
		w.pings.fail(tt.err)
		for name, post := range map[string]func() (int, http.Header, string){
			"subscribe": func() (int, http.Header, string) {
				return w.post(t, formType, form("hub.mode", "subscribe", "hub.topic", aTopic, "hub.callback", aCallback))
			},
			"ping": func() (int, http.Header, string) {
				return w.post(t, formType, form("hub.mode", "publish", "hub.url", aTopic))
			},
			"publish": func() (int, http.Header, string) { return w.post(t, "text/plain", "x", link) },
		} {
			status, header, body := post()
			want := tt.status
			if name == "ping" {
				want = tt.ping
			}
			if status != want || header.Get("Retry-After") != tt.retry || strings.Contains(body, "pebble") {
				t.Errorf("%s, %v: %d, Retry-After %q, %q", name, tt.err, status, header.Get("Retry-After"), body)
			}
		}
	}
}

// TestPingRepeated: a topic counts once, however often it is named.
func TestPingRepeated(t *testing.T) {
	w := newTown(t, nil)
	status, _, body := w.post(t, formType, "hub.mode=publish"+strings.Repeat("&"+form("hub.url", aTopic), 200))
	if status != http.StatusNoContent || w.pings.waiting() != 1 || w.pings.count != 1 {
		t.Errorf("%d %s, %d waiting", status, body, w.pings.waiting())
	}
}

func TestWishes(t *testing.T) {
	w := newTown(t, nil)
	// As given: escapes, case and an empty query stay (WebSub §5.1.1, §8.3).
	topic, callback := "HTTP://127.0.0.1:9/%7ea?x=%2f", "http://127.0.0.1:9?a=b&hub.mode=x&"
	tests := []struct {
		name, body string
		want       subscription.Wish
	}{
		{
			"everything", form(
				"hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.secret",
				strings.Repeat("x", 199), "hub.lease_seconds", "0300",
			),
			subscription.Wish{
				Mode: "subscribe", Topic: topic, Callback: callback,
				Secret: subscription.Secret(strings.Repeat("x", 199)), Lease: 300 * time.Second,
				LeaseGiven: true,
			},
		},
		{
			"least", form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.secret", "", "hub.lease_seconds", ""),
			subscription.Wish{Mode: "subscribe", Topic: topic, Callback: callback},
		},
		{
			"huge lease", form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.lease_seconds", strings.Repeat("9", 400)),
			subscription.Wish{
				Mode: "subscribe", Topic: topic, Callback: callback,
				Lease: math.MaxInt64 / time.Second * time.Second, LeaseGiven: true,
			},
		},
		{
			"the same twice", form(
				"hub.mode", "subscribe", "hub.mode", "subscribe", "hub.topic", topic, "hub.topic",
				topic, "hub.callback", callback,
			),
			subscription.Wish{Mode: "subscribe", Topic: topic, Callback: callback},
		},
		{
			"semicolon in a value", form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback) + "&hub.secret=a;b+c",
			subscription.Wish{Mode: "subscribe", Topic: topic, Callback: callback, Secret: "a;b c"},
		},
		{
			"verify token", form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", callback, "hub.verify_token", strings.Repeat("x", 512)),
			subscription.Wish{Mode: "subscribe", Topic: topic, Callback: callback, VerifyToken: subscription.Secret(strings.Repeat("x", 512))},
		},
		{
			"unsubscribe with a verify token", form(
				"hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", callback, "hub.verify_token", "a&b",
			),
			subscription.Wish{Mode: "unsubscribe", Topic: topic, Callback: callback, VerifyToken: "a&b"},
		},
		{
			"unsubscribe", form(
				"hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", callback,
				"hub.lease_seconds", "junk", "hub.lease_seconds", "0",
			),
			subscription.Wish{Mode: "unsubscribe", Topic: topic, Callback: callback},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := w.post(t, formType, tt.body)
			if got := w.requests.last(t); status != 202 || got != tt.want {
				t.Errorf("%d %q\ngot  %#v\nwant %#v", status, body, got, tt.want)
			}
		})
	}
}

func TestPublished(t *testing.T) {
	w := newTown(t, nil)
	body := "\x00 any bytes \xff\r\n"
	status, _, answer := w.post(t, `Text/Plain; Charset="x"`, body,
		fmt.Sprintf(
			`Link: <%s/good>; rel="self next", <%s/good>; rel=self, <%s>; rel="hub", <https://other.example/>; rel=hub`,
			w.topicURL, w.topicURL, w.hubURL,
		),
		`Link: <https://example.com/caps>; rel="resourcesync"; title="a \"b\""`)
	if status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	got := w.publisher.all()[0]
	want := delivery.Publication{
		Topic: topic.Parse(w.topicURL + "/good"), ContentType: `Text/Plain; Charset="x"`, Body: []byte(body),
		Links: []string{`<` + w.topicURL + `/good>; rel="next"`, `<https://example.com/caps>; rel="resourcesync"; title="a \"b\""`},
	}
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestPublishedInterval(t *testing.T) {
	w := newTown(t, nil)
	link := fmt.Sprintf(`Link: <%s/good>; rel="self", <%s>; rel="hub"`, w.topicURL, w.hubURL)
	status, _, body := w.post(t, "application/xml; charset=utf-8", notification, link)
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if got := w.publisher.all()[0]; got.From != "2013-01-03T00:00:00Z" || got.Until != "2013-01-03T01:00:00Z" {
		t.Errorf("interval %q to %q", got.From, got.Until)
	}
}

const notification = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2013-01-03T00:00:00Z" until="2013-01-03T01:00:00Z"/>
<url><loc>http://example.com/1</loc><rs:md change="created" datetime="2013-01-03T00:30:00Z"/></url>
</urlset>`
