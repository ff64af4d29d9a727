package destination_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

func TestVerificationRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := <-w.asked
		for name, differs := range map[string]url.Values{
			"another topic":             {"hub.topic": {"http://source.example/other/"}},
			"a topic nearly the same":   {"hub.topic": {topicURL + "?"}},
			"no topic":                  {"hub.topic": nil},
			"two topics":                {"hub.topic": {topicURL, topicURL}},
			"another mode":              {"hub.mode": {"unsubscribe"}},
			"a mode that is none":       {"hub.mode": {"publish"}},
			"no mode":                   {"hub.mode": nil},
			"no challenge":              {"hub.challenge": nil},
			"a challenge with markup":   {"hub.challenge": {"<script>alert(1)</script>"}},
			"a challenge with a line":   {"hub.challenge": {"a\r\nb"}},
			"a challenge with a space":  {"hub.challenge": {"a b"}},
			"a challenge without end":   {"hub.challenge": {strings.Repeat("a", 1025)}},
			"two challenges":            {"hub.challenge": {"a", "b"}},
			"a challenge not in ASCII":  {"hub.challenge": {"ä"}},
			"two leases":                {"hub.lease_seconds": {"1", "2"}},
			"a denial of another topic": {"hub.mode": {"denied"}, "hub.topic": {"http://source.example/other/"}},
		} {
			rec := w.verify(a, differs)
			if rec.Code != http.StatusNotFound || strings.Contains(rec.Body.String(), "script") {
				t.Errorf("%s is answered %d %q, want 404", name, rec.Code, rec.Body)
			}
		}
		for _, target := range []string{
			baseURL, baseURL + "callback/", a.callback() + "/", a.callback()[:len(a.callback())-1],
			a.callback() + "?%zz",
		} {
			if rec := w.get(target); rec.Code != http.StatusNotFound {
				t.Errorf("GET %s is answered %d, want 404", target, rec.Code)
			}
		}
		rec := w.verify(a, nil)
		if rec.Code != http.StatusOK || rec.Body.String() != challenge {
			t.Fatalf("the verification is answered %d %q, want 200 and the challenge", rec.Code, rec.Body)
		}
		for header, want := range map[string]string{"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff"} {
			if got := rec.Header().Get(header); got != want {
				t.Errorf("%s: %s, want %s", header, got, want)
			}
		}
		w.stop()
	})
}

// TestVerificationAgain: a hub that did not get the answer asks again, for a
// while; later nothing is pending.
func TestVerificationAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(24 * time.Hour)
		time.Sleep(time.Minute)
		if rec := w.verify(a, nil); rec.Code != http.StatusOK {
			t.Errorf("the same verification a minute later is answered %d", rec.Code)
		}
		time.Sleep(destination.GraceAfter)
		if rec := w.verify(a, nil); rec.Code != http.StatusNotFound {
			t.Errorf("a verification when nothing is pending is answered %d, want 404", rec.Code)
		}
		w.stop()
	})
}

// TestLeaseUntold: an old hub leaves out the lease, another sends nonsense.
func TestLeaseUntold(t *testing.T) {
	for _, told := range [][]string{nil, {""}, {"-1"}, {"0"}, {"soon"}, {"1e9"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			w.start(w.config(t.TempDir()))
			if rec := w.verify(<-w.asked, url.Values{"hub.lease_seconds": told}); rec.Code != http.StatusOK {
				t.Fatalf("answered %d", rec.Code)
			}
			start := time.Now()
			w.subscribed(time.Hour)
			if d := time.Since(start); d != 160*time.Hour {
				t.Errorf("lease %q: renewed after %s, want two thirds of 10 days", told, d)
			}
			w.stop()
		})
	}
}

func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(time.Hour)
		sign := func(h func() hash.Hash, secret, body string) string {
			mac := hmac.New(h, []byte(secret))
			_, _ = io.WriteString(mac, body)
			return hex.EncodeToString(mac.Sum(nil))
		}
		const body = "hello"
		good := sign(sha256.New, a.secret(), body)
		tests := []struct {
			name, signature string
			want            int
		}{
			{"sha1", "sha1=" + sign(sha1.New, a.secret(), body), 204},
			{"sha256", "sha256=" + good, 204},
			{"sha384", "sha384=" + sign(sha512.New384, a.secret(), body), 204},
			{"sha512", "sha512=" + sign(sha512.New, a.secret(), body), 204},
			{"capitals", "SHA256=" + strings.ToUpper(good), 204},
			{"none", "", 403},
			{"empty", "sha256=", 403},
			{"no method", good, 403},
			{"another method", "sha512=" + good, 403},
			{"unknown method", "md5=" + sign(md5.New, a.secret(), body), 403},
			{"another secret", "sha256=" + sign(sha256.New, "guess", body), 403},
			{"no secret", "sha256=" + sign(sha256.New, "", body), 403},
			{"another body", "sha256=" + sign(sha256.New, a.secret(), body+" "), 403},
			{"cut short", "sha256=" + good[:32], 403},
			{"not hexadecimal", "sha256=" + strings.Repeat("x", 64), 403},
		}
		taken := 0
		for _, tt := range tests {
			r := httptest.NewRequest(http.MethodPost, a.callback(), strings.NewReader(body))
			r.Header.Set("X-Hub-Signature", tt.signature)
			if rec := w.serve(r); rec.Code != tt.want {
				t.Errorf("%s is answered %d, want %d", tt.name, rec.Code, tt.want)
			}
			if tt.want == 204 {
				taken++
			}
		}
		if got := strings.Count(w.out.String(), "\n"); got != taken {
			t.Errorf("%d of %d were printed:\n%s", got, taken, w.out)
		}
		w.stop()
	})
}

// TestOnce: a repeated notification is answered like the first, and not printed again.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newFixture(t)
		w.start(w.config(dir))
		a := w.subscribed(time.Hour)
		deliver := func(id string, m int) {
			t.Helper()
			if rec := w.deliver(a, a.secret(), id, minute(m)); rec.Code != http.StatusNoContent {
				t.Errorf("answered %d", rec.Code)
			}
		}
		long := strings.Repeat("n", 1000)
		deliver("n1", 1)
		deliver("n1", 1)
		deliver("", 2) // a hub without ids: known by the content
		deliver("", 2)
		deliver(long, 3)
		deliver(long, 3)
		want := minuteLine(1) + minuteLine(2) + minuteLine(3)
		if w.out.String() != want {
			t.Errorf("printed\n%swant\n%s", w.out, want)
		}
		w.stop()

		// A later run knows them too.
		w.start(w.config(dir))
		a = w.subscribed(time.Hour)
		deliver("n1", 1)
		deliver(long, 3)
		deliver("n4", 4)
		if want += minuteLine(4); w.out.String() != want {
			t.Errorf("after a restart: printed\n%swant\n%s", w.out, want)
		}
		if strings.Contains(w.logs.String(), "gap") {
			t.Errorf("a gap is reported where there is none:\n%s", w.logs)
		}
		w.stop()
	})
}

// A notification without an interval and a datetime is recognized by its ID only: the same content may
// be of another change.
func TestNothingToldTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(time.Hour)
		const body = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
			<rs:md capability="change-notification"/><url><loc>http://source.example/a</loc><rs:md change="updated"/></url></urlset>`
		for _, id := range []string{"n1", "n1", "n2"} {
			w.deliver(a, a.secret(), id, body)
		}
		if n := strings.Count(w.out.String(), "http://source.example/a"); n != 2 {
			t.Errorf("printed %d times, want 2:\n%s", n, w.out)
		}
		w.stop()
	})
}

// TestCrash: a process that dies leaves a directory from which the next one carries on with the same
// subscription. A delivery before the hub's next verification is taken.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		dir, left := t.TempDir(), t.TempDir()
		w.start(w.config(dir))
		a := w.subscribed(time.Hour)
		w.deliver(a, a.secret(), "n1", minute(1))
		state, err := os.ReadFile(filepath.Join(dir, "destination.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, "destination.json"), state, 0o600); err != nil {
			t.Fatal(err)
		}
		w.stop()

		w.start(w.config(left))
		again := <-w.asked
		if again.callback() != a.callback() || again.secret() == a.secret() {
			t.Error("the subscription is not renewed under its callback with another secret")
		}
		for _, id := range []string{"n1", "n2"} {
			if rec := w.deliver(a, a.secret(), id, minute(int(id[1]-'0'))); rec.Code != http.StatusNoContent {
				t.Errorf("%s is answered %d", id, rec.Code)
			}
		}
		if want := minuteLine(1) + minuteLine(2); w.out.String() != want {
			t.Errorf("printed\n%swant\n%s", w.out, want)
		}
		w.verify(again, nil)
		w.stop()
	})
}

func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newFixture(t)
		w.start(w.config(dir))
		a := w.subscribed(time.Hour)
		for _, step := range []struct {
			minute int
			want   string
		}{
			{1, ""},
			{2, ""},
			{4, "gap: the changes between two notifications are missing\" last_until=2026-01-02T03:03:00Z from=2026-01-02T03:04:00Z"},
			{5, ""},
			{3, "overlap: the notification begins before the last one ended\" last_until=2026-01-02T03:06:00Z from=2026-01-02T03:03:00Z"},
			{6, ""},
		} {
			before := len(w.logs.String())
			w.deliver(a, a.secret(), "", minute(step.minute))
			if logged := w.logs.String()[before:]; !strings.Contains(logged, step.want) || step.want == "" && logged != "" {
				t.Errorf("notification %d: logged %q, want %q", step.minute, logged, step.want)
			}
		}
		w.stop()

		// Changes missed without a subscription are a gap too.
		w.start(w.config(dir))
		a = w.subscribed(time.Hour)
		w.deliver(a, a.secret(), "", minute(9))
		if want := "last_until=2026-01-02T03:07:00Z from=2026-01-02T03:09:00Z"; !strings.Contains(w.logs.String(), want) {
			t.Errorf("logged %s, want %s", w.logs, want)
		}
		w.stop()

		// A Sink that looks at them itself gets no overlap.
		cfg := w.config(dir)
		cfg.SinkSeesGaps = true
		w.start(cfg)
		a = w.subscribed(time.Hour)
		before := len(w.logs.String())
		w.deliver(a, a.secret(), "", minute(12))
		if logged := w.logs.String()[before:]; strings.Contains(logged, "gap") {
			t.Errorf("logged %s", logged)
		}
		w.stop()
	})
}

// TestOtherContent: a hub delivers anything; one line says what it was.
func TestOtherContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		a := w.subscribed(time.Hour)
		broken := strings.Replace(minute(1), "</url>", "", 1)
		for _, body := range []string{"<feed/>", "<feed/>", broken} {
			if rec := w.deliver(a, a.secret(), "", body); rec.Code != http.StatusNoContent {
				t.Errorf("answered %d", rec.Code)
			}
		}
		lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[0], "Z content length=7 type=application/xml") || !strings.Contains(lines[2], " content ") {
			t.Errorf("printed\n%s", w.out)
		}
		if !strings.Contains(w.logs.String(), "cannot be read") {
			t.Errorf("nothing says that a notification was broken:\n%s", w.logs)
		}
		w.stop()
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		cfg := w.config(t.TempDir())
		cfg.MaxBody = 1000
		w.start(cfg)
		a := w.subscribed(time.Hour)
		if rec := w.deliver(a, a.secret(), "", strings.Repeat("x", 1001)); rec.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("a body over the limit is answered %d, want 413", rec.Code)
		}
		if rec := w.deliver(a, a.secret(), "", strings.Repeat("x", 1000)); rec.Code != http.StatusNoContent {
			t.Errorf("a body at the limit is answered %d", rec.Code)
		}
		rec := w.serve(httptest.NewRequest(http.MethodPut, a.callback(), nil))
		if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != "GET, POST" {
			t.Errorf("PUT is answered %d with Allow %q", rec.Code, rec.Header().Get("Allow"))
		}
		w.cancel()
		w.verify(<-w.asked, nil)
		<-w.ran
		if rec := w.deliver(a, a.secret(), "", "x"); rec.Code != http.StatusGone {
			t.Errorf("a delivery after the end is answered %d, want 410", rec.Code)
		}
		if err := w.d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStateCannotBeWritten: without a place to note it nothing is acknowledged;
// when there is one again, the repetition is, and nothing was printed twice.
func TestStateCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		w := newFixture(t)
		w.start(w.config(dir))
		a := w.subscribed(time.Hour)
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			rec := w.deliver(a, a.secret(), "n1", minute(1))
			if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || strings.Contains(rec.Body.String(), dir) {
				t.Errorf("answered %d %q, want 503 with Retry-After and nothing from inside", rec.Code, rec.Body)
			}
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("answered %d when there is a place again", rec.Code)
		}
		if w.out.String() != minuteLine(1) {
			t.Errorf("printed\n%s", w.out)
		}
		w.stop()
	})
}

type brokenSink struct{}

func (brokenSink) Accept(*destination.Notification) error { return errors.New("nobody reads") }

func TestSinkEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		cfg := w.config(t.TempDir())
		cfg.Sink = brokenSink{}
		w.start(cfg)
		a := w.subscribed(time.Hour)
		if rec := w.deliver(a, a.secret(), "n1", minute(1)); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("answered %d, want 503", rec.Code)
		}
		if err := w.end(); err == nil || !strings.Contains(err.Error(), "nobody reads") {
			t.Errorf("Run: %v, want the sink's reason", err)
		}
	})
}

// FuzzVerification: whatever a query says, only the pending request is confirmed,
// with nothing but its challenge, and nothing else comes of it.
func FuzzVerification(f *testing.F) {
	w := newFixture(f)
	cfg := w.config(f.TempDir())
	cfg.StopWithin = time.Millisecond
	w.start(cfg)
	a := <-w.asked
	f.Cleanup(func() { w.cancel(); _ = w.end() })
	good := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topicURL}, "hub.challenge": {challenge}, "hub.lease_seconds": {"99"}}.Encode()
	for _, q := range []string{"", good, good + "&hub.lease_seconds=1", "hub.mode=denied;hub.topic=x", "hub.challenge=%00", good + "&x=%zz"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, a.callback(), nil)
		r.URL.RawQuery = query
		q, _ := url.ParseQuery(query)
		if q.Get("hub.mode") == "denied" && q.Get("hub.topic") == topicURL {
			return // would end the subscription that the others need
		}
		rec := w.serve(r)
		body := rec.Body.String()
		switch rec.Code {
		case http.StatusOK:
			if q.Get("hub.topic") != topicURL || q.Get("hub.mode") != "subscribe" || body != q.Get("hub.challenge") {
				t.Errorf("%q was confirmed with %q", query, body)
			}
			if rec.Header().Get("Content-Type") != "application/octet-stream" || strings.ContainsAny(body, "<>&\"' \r\n\x00") {
				t.Errorf("the answer %q is not safe", body)
			}
		case http.StatusNotFound:
			if strings.TrimSpace(body) != "Not confirmed." {
				t.Errorf("a refusal says %q", body)
			}
		default:
			t.Errorf("%q is answered %d", query, rec.Code)
		}
	})
}
