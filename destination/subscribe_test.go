package destination_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

// TestDiscovery: what a topic shows, and whom the Destination then asks for what.
func TestDiscovery(t *testing.T) {
	atom := `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="/embedded"/></feed>`
	tests := []struct {
		name       string
		topic      http.HandlerFunc
		hub, asked string
	}{
		{"link headers", withLinks(`<` + topicURL + `>; rel="self", <` + hubURL + `>; rel="hub"`), hubURL, topicURL},
		{"the self that it shows", withLinks(`<http://other.example/t>;rel=self,<` + hubURL + `>;rel=hub`), hubURL, "http://other.example/t"},
		{"no self", withLinks(`<` + hubURL + `>;rel=hub`), hubURL, topicURL},
		{"https is preferred", withLinks(`<http://hub1.example/>;rel=hub,<https://hub2.example/>;rel=hub`), "https://hub2.example/", topicURL},
		{"relative", withLinks(`<other>;rel=self,<//hub3.example/>;rel=hub`), "http://hub3.example/", topicURL + "other"},
		{"garbage beside", withLinks(`<` + hubURL + `>;rel=hub, garbage`), hubURL, topicURL},
		{"not for a browser", withLinks(`<ftp://hub1.example/>;rel=hub,<` + hubURL + `>;rel=hub`), hubURL, topicURL},
		{"HEAD refused", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			withLinks(`<`+hubURL+`>;rel=hub`)(w, r)
		}, hubURL, topicURL},
		{"HEAD without links", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				withLinks(`<`+hubURL+`>;rel=hub`)(w, r)
			}
		}, hubURL, topicURL},
		{"embedded, relative to where it was moved", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Host != "hub.example" && !strings.HasPrefix(r.URL.Path, "/moved") {
				http.Redirect(w, r, "http://source.example/moved", http.StatusMovedPermanently)
				return
			}
			w.Header().Set("Content-Type", "application/atom+xml")
			_, _ = w.Write([]byte(strings.ReplaceAll(atom, "/embedded", hubURL)))
		}, hubURL, topicURL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newFixture(t)
			w.topic, w.hub = tt.topic, answer(http.StatusBadRequest, "hub.callback:\r\nnot \x1b[31mallowed")
			w.start(w.config(t.TempDir()))
			err := w.end()
			if !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "hub.callback: not ?[31mallowed") {
				t.Errorf("Run: %v, want ErrRefused with the hub's words in one printable line", err)
			}
			a := <-w.asked
			if a.url != tt.hub || a.form.Get("hub.topic") != tt.asked {
				t.Errorf("asked %s for %s, want %s for %s", a.url, a.form.Get("hub.topic"), tt.hub, tt.asked)
			}
		})
	}
}

// roundTrip is a Transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A topic over https that redirects to http is not followed there: an attacker on the way could name a
// hub.
func TestTopicLeavesHTTPS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var asked []string
		cfg := w.config(t.TempDir())
		cfg.Topic = "https://source.example/t"
		cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.Method+" "+r.URL.String())
			rec := httptest.NewRecorder()
			if r.URL.Scheme == "https" {
				http.Redirect(rec, r, "http://source.example/t", http.StatusFound)
			} else {
				withLinks("<"+hubURL+">; rel=hub")(rec, r)
			}
			return rec.Result(), nil
		})
		w.start(cfg)
		synctest.Wait()
		if got := strings.Join(asked, ", "); got != "HEAD https://source.example/t, GET https://source.example/t" {
			t.Errorf("asked for %s", got)
		}
		w.cancel()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(w.logs.String(), "it redirects from https to http") {
			t.Errorf("the log has %s", w.logs)
		}
	})
}

func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		cfg := w.config(t.TempDir())
		cfg.Lease = time.Hour
		w.start(cfg)
		a := w.subscribed(time.Hour)
		if s := a.secret(); len(s) < 32 || len(s) >= 200 {
			t.Errorf("the secret has %d bytes; WebSub §5.1 wants less than 200, and we want it hard to guess", len(s))
		}
		name, under := strings.CutPrefix(a.callback(), baseURL+"callback/")
		if !under || len(name) < 32 {
			t.Errorf("the callback %s is not an unguessable one under %s", a.callback(), baseURL)
		}
		if got := a.form.Get("hub.lease_seconds"); got != "3600" {
			t.Errorf("hub.lease_seconds=%s, want 3600", got)
		}
		w.stop()
	})
}

// TestSentOn: a hub may send a request on to another (WebSub §5.1.2).
func TestSentOn(t *testing.T) {
	on := func(code int, to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/end") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("Location", to)
			w.WriteHeader(code)
		}
	}
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		w := newFixture(t)
		w.hub = on(code, "/end")
		w.start(w.config(t.TempDir()))
		if err := w.end(); !errors.Is(err, destination.ErrRefused) {
			t.Fatalf("Run: %v, want the refusal of the second hub", err)
		}
		first, second := <-w.asked, <-w.asked
		if second.url != "https://hub.example/end" || second.form.Encode() != first.form.Encode() {
			t.Errorf("%d: sent on to %s with %v, want the same form at /end", code, second.url, second.form)
		}
	}

	// Those that are not followed are tried again from the start, later.
	for name, hub := range map[string]http.HandlerFunc{
		"for ever":        on(http.StatusTemporaryRedirect, "/loop"),
		"to plain http":   on(http.StatusTemporaryRedirect, "http://hub.example/"),
		"nowhere":         on(http.StatusTemporaryRedirect, ""),
		"as a see other":  on(http.StatusSeeOther, "/end"),
		"moved as a page": on(http.StatusMovedPermanently, "/end"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.hub = hub
				w.start(w.config(t.TempDir()))
				synctest.Wait()
				if n := len(w.asked); n < 1 || n > 6 {
					t.Errorf("the hub was asked %d times in one attempt, want 1 to 6", n)
				}
				for range len(w.asked) {
					if a := <-w.asked; !strings.HasPrefix(a.url, "https://hub.example/") || strings.HasSuffix(a.url, "/end") {
						t.Errorf("the secret went to %s", a.url)
					}
				}
				if !strings.Contains(w.logs.String(), "it is retried") {
					t.Errorf("nothing tells the operator: %s", w.logs)
				}
				w.cancel()
				if err := w.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAwayAtStart: a topic and a hub that are away are tried again, with a line
// for the operator each time, until they are there.
func TestAwayAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		there := w.topic
		gets := 0
		w.topic = func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				gets++
			}
			if gets < 3 {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			there(rw, r)
		}
		posts := 0
		w.hub = func(rw http.ResponseWriter, _ *http.Request) {
			if posts++; posts == 1 {
				rw.Header().Set("Retry-After", "600")
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			rw.WriteHeader(http.StatusAccepted)
		}
		start := time.Now()
		w.start(w.config(t.TempDir()))
		<-w.asked
		if d := time.Since(start); d < time.Second || d > time.Minute {
			t.Errorf("the topic that was away twice was reached after %s", d)
		}
		refused := time.Now()
		w.subscribed(time.Hour)
		if d := time.Since(refused); d < 10*time.Minute {
			t.Errorf("asked again after %s; the hub said Retry-After: 600", d)
		}
		if n := strings.Count(w.logs.String(), "it is retried"); n != 3 {
			t.Errorf("%d lines for 3 failed attempts:\n%s", n, w.logs)
		}
		w.stop()
	})
}

// TestNeverVerified: a request that was accepted and not verified is made
// again, with the callback and the secret that the hub may yet verify.
func TestNeverVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		first := <-w.asked
		start := time.Now()
		second := w.subscribed(time.Hour)
		if time.Since(start) < destination.DefaultVerifyWithin {
			t.Errorf("asked again after %s", time.Since(start))
		}
		if first.callback() != second.callback() || first.secret() != second.secret() {
			t.Error("the second request has another callback or secret: a late verification would be of neither")
		}
		w.stop()
	})
}

// TestLateVerification: the hub verifies when we have stopped waiting for it.
// Before the wait for a verification is over, the log gives the reason why it may not come, with the callback's address
// and not its secret name.
func TestVerificationAwaited(t *testing.T) {
	for base, hint := range map[string]string{
		baseURL:                  "firewall",
		"http://127.0.0.1:8092/": "works on this machine only",
		"http://localhost/":      "works on this machine only",
		"http://[::1]:8092/":     "works on this machine only",
		"https://192.168.1.2/x/": "is private",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			cfg := w.config(t.TempDir())
			cfg.URL = base
			w.start(cfg)
			a := <-w.asked
			time.Sleep(9 * time.Second)
			synctest.Wait()
			if logs := w.logs.String(); strings.Contains(logs, "has not verified it yet") {
				t.Errorf("too soon: %s", logs)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			logs := w.logs.String()
			if strings.Count(logs, "has not verified it yet") != 1 || !strings.Contains(logs, base+"callback/…") || !strings.Contains(logs, hint) {
				t.Errorf("%s: %s", base, logs)
			}
			if strings.Contains(logs, strings.TrimPrefix(a.callback(), base+"callback/")) {
				t.Errorf("the callback's secret name is logged: %s", logs)
			}
			if rec := w.verify(a, nil); rec.Code != http.StatusOK {
				t.Errorf("the verification is answered %d", rec.Code)
			}
			w.stop()
		})
	}
}

func TestLateVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		cfg := w.config(t.TempDir())
		cfg.RetryFirst, cfg.RetryMax = time.Hour, time.Hour
		w.start(cfg)
		a := <-w.asked
		time.Sleep(destination.DefaultVerifyWithin + time.Second)
		if rec := w.verify(a, nil); rec.Code != http.StatusOK {
			t.Errorf("a verification that is late but pending is answered %d", rec.Code)
		}
		w.stop()
	})
}

func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newFixture(t)
		w.start(w.config(dir))
		a := <-w.asked
		if rec := w.get(a.callback() + "?hub.mode=denied&hub.topic=http%3A%2F%2Fother.example%2F"); rec.Code != http.StatusNotFound {
			t.Errorf("a denial for another topic is answered %d, want 404", rec.Code)
		}
		rec := w.get(
			a.callback() + "?hub.mode=denied&hub.topic=" + url.QueryEscape(topicURL) + "&hub.reason=the+topic+%1B%5B2Jdoes%0Anot+name+this+hub",
		)
		if rec.Code != http.StatusOK || rec.Body.Len() != 0 {
			t.Errorf("a denial is answered %d %q", rec.Code, rec.Body)
		}
		err := w.end()
		if !errors.Is(err, destination.ErrDenied) || !strings.HasSuffix(err.Error(), "the topic ?[2Jdoes not name this hub") {
			t.Errorf("Run: %v, want ErrDenied with the reason, printable", err)
		}
		// The next start begins afresh.
		w.start(w.config(dir))
		if again := w.subscribed(time.Hour); again.callback() == a.callback() {
			t.Error("the callback that was denied is used again")
		}
		w.stop()
	})
}

// TestRenewal: well before the lease ends the subscription is renewed under the same
// callback with another secret, and no delivery is lost on the way.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(w.config(t.TempDir()))
		first := w.subscribed(300 * time.Second)
		start := time.Now()
		second := <-w.asked
		if d := time.Since(start); d != 200*time.Second {
			t.Errorf("a lease of 300 s is renewed after %s, want 200 s", d)
		}
		if second.callback() != first.callback() || second.secret() == first.secret() {
			t.Error("a renewal keeps the callback and changes the secret")
		}
		deliver := func(secret string, m, want int) {
			t.Helper()
			if rec := w.deliver(first, secret, "", minute(m)); rec.Code != want {
				t.Errorf("notification %d is answered %d, want %d", m, rec.Code, want)
			}
		}
		deliver(first.secret(), 1, http.StatusNoContent)
		if rec := w.verify(second, url.Values{"hub.lease_seconds": {"3600"}}); rec.Code != http.StatusOK {
			t.Fatalf("the renewal is answered %d", rec.Code)
		}
		deliver(first.secret(), 2, http.StatusNoContent) // was under way
		deliver(second.secret(), 3, http.StatusNoContent)
		verified := time.Now()
		third := w.subscribed(time.Hour)
		if d := time.Since(verified); d != 40*time.Minute {
			t.Errorf("the lease of the renewal is renewed after %s, want 40 m", d)
		}
		deliver(first.secret(), 4, http.StatusForbidden)
		deliver(third.secret(), 4, http.StatusNoContent)
		if want := minuteLine(1) + minuteLine(2) + minuteLine(3) + minuteLine(4); w.out.String() != want {
			t.Errorf("printed\n%swant\n%s", w.out, want)
		}
		w.stop()
	})
}

// TestRenewalOfWhatCannotBeAsked: the topic's server is away and the hub refuses for a while. The
// subscription is renewed as soon as it can be.
func TestRenewalOfWhatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		there, posts := w.topic, 0
		w.topic = func(rw http.ResponseWriter, r *http.Request) {
			if posts > 0 {
				rw.WriteHeader(http.StatusBadGateway)
				return
			}
			there(rw, r)
		}
		w.hub = func(rw http.ResponseWriter, _ *http.Request) {
			if posts++; posts == 2 {
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			rw.WriteHeader(http.StatusAccepted)
		}
		w.start(w.config(t.TempDir()))
		first := w.subscribed(time.Hour)
		<-w.asked
		again := w.subscribed(time.Hour)
		if again.url != first.url || again.form.Get("hub.topic") != topicURL || again.callback() != first.callback() {
			t.Errorf("renewed at %s with %v, want as before", again.url, again.form)
		}
		w.stop()
	})
}

// TestStopIsBounded: a hub that never verifies the unsubscription does not hold up the stop.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newFixture(t)
		w.start(w.config(dir))
		a := w.subscribed(time.Hour)
		w.cancel()
		stopped := time.Now()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if d := time.Since(stopped); d != destination.DefaultStopWithin {
			t.Errorf("stopped after %s, want %s", d, destination.DefaultStopWithin)
		}
		// The hub still has the subscription, and so has the next start.
		<-w.asked // unsubscribe
		w.start(w.config(dir))
		if rec := w.deliver(a, a.secret(), "", minute(1)); rec.Code != http.StatusNoContent {
			t.Errorf("a delivery to the old callback is answered %d", rec.Code)
		}
		w.subscribed(time.Hour)
		w.stop()
	})
}

// TestStopBeforeSubscribed: there is nothing to end, and no request is sent.
func TestStopBeforeSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.topic = answer(http.StatusNotFound, "")
		w.start(w.config(t.TempDir()))
		synctest.Wait()
		w.cancel()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if len(w.asked) != 0 {
			t.Error("the hub was asked")
		}
	})
}

// TestLeaseOver: a subscription that ended while the program was off is not carried on; a new
// subscription has a new callback and secret.
func TestLeaseOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newFixture(t)
		w.start(w.config(dir))
		a := w.subscribed(300 * time.Second)
		w.cancel()
		if err := w.end(); err != nil {
			t.Error(err)
		}
		<-w.asked // unsubscribe, which the hub never verified
		time.Sleep(300 * time.Second)
		w.start(w.config(dir))
		if again := w.subscribed(time.Hour); again.callback() == a.callback() || again.secret() == a.secret() {
			t.Error("the callback or secret of a subscription that is over is used again")
		}
		w.stop()
	})
}
