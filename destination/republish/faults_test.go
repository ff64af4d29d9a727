package republish_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/destination/follow"
	"carillon/destination/republish"
)

// The fault table: each call fails before it has done anything, and after it has. Then the process is killed, or
// goes on. Nothing is lost in any case, and what comes twice is the same.
func TestFaults(t *testing.T) {
	for _, call := range []string{"Save", "Collect", "Next", "Settle", "lost", "unanswered"} {
		for _, after := range []bool{false, true} {
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprint(call, " after=", after, " killed=", killed), func(t *testing.T) {
					a := newAggregator(t, t)
					defer a.end()
					if _, err := a.handle(a.from.put("/before", "one")); err != nil {
						t.Fatal(err)
					}
					a.publish()
					rounds := []func() []follow.Change{
						func() []follow.Change { return []follow.Change{a.from.put("/a", "one"), a.from.put("/b", "two")} },
						func() []follow.Change {
							return []follow.Change{a.from.remove("/a"), a.from.put("/b", "three"), a.from.put("/c", "four")}
						},
					}
					for _, happen := range rounds {
						round, failed := happen(), false
						a.faulty.plan = func(is string) (bool, bool) {
							if is != call || failed { // each round once
								return false, false
							}
							failed = true
							return !after, after
						}
						switch call {
						case "lost":
							a.to.once(lost)
						case "unanswered":
							a.to.once(unanswered)
						}
						_, err := a.handle(round...)
						if again := errors.Is(err, errStore); again != (call == "Save") || err != nil && !again {
							t.Fatalf("taken: %v", err)
						}
						_ = a.faulty.Collect(t.Context())
						_, _ = a.out.Step(t.Context()) // what it came to is seen in the end
						if killed {
							a.kill()
							a.publish()
						}
						if err != nil {
							if _, err := a.handle(round...); err != nil {
								t.Fatal(err)
							}
						}
						a.to.once(nil)
						a.drain()
					}
					p := play{a: a, checker: t}
					p.compare()
					p.repetitions()
					if got := len(a.to.published(t)); got < 6 {
						t.Errorf("only %d events", got)
					}
				})
			}
		}
	}
}

// A change that a real notifier refuses, as the address of its copy is too long, is set aside. The others go on, and it
// is tried again at the next start, or gone with its copy.
func TestRefusedByANotifier(t *testing.T) {
	a := newAggregator(t, t)
	defer a.end()
	a.publish()
	long := strings.Repeat("/"+strings.Repeat("%C3%A4", 30), 20)
	counts := func(want republish.Counts) {
		t.Helper()
		if got, err := a.store.Outbox().Counts(t.Context()); err != nil || got != want {
			t.Errorf("standing %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := a.handle(a.from.put("/a", "one"), a.from.put(long, "two"), a.from.put("/z", "three")); err != nil {
		t.Fatal(err)
	}
	counts(republish.Counts{Waiting: 3})
	a.drain()
	counts(republish.Counts{Published: 2, Refused: 1})
	a.kill()
	a.publish()
	counts(republish.Counts{Published: 2, Waiting: 1})
	a.drain()
	counts(republish.Counts{Published: 2, Refused: 1})
	if _, err := a.handle(a.from.remove(long)); err != nil {
		t.Fatal(err)
	}
	a.drain()
	counts(republish.Counts{Published: 2})
	if got := a.to.published(t); len(got) != 2 {
		t.Errorf("published are %+v", got)
	}
}

// An intake with TLS is asked with what its certificate is checked by.
func TestTLS(t *testing.T) {
	a := newAggregator(t, t)
	defer a.end()
	secure := httptest.NewTLSServer(a.to.notifier.Intake())
	defer secure.Close()
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	to := republish.Target{Intake: secure.URL + "/sets/" + set + "/events", Base: base}
	if _, err := a.store.Outbox().Open(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []bool{false, true} {
		cfg := republish.Config{Outbox: a.faulty, Target: to}
		if trusted {
			cfg.TLS = &tls.Config{RootCAs: pool}
		}
		p, err := republish.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.out = p
		if _, err := a.handle(a.from.put("/a", fmt.Sprint(trusted))); err != nil {
			t.Fatal(err)
		}
		_, err = p.Step(context.Background())
		if trusted != (err == nil) {
			t.Errorf("trusted %t: %v", trusted, err)
		}
	}
	a.drain()
	if got := a.to.published(t); len(got) == 0 || got[len(got)-1].Hash != hashOf("true") {
		t.Errorf("published are %+v", got)
	}
}
