package egress_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// answersWithin answers for what is below the domain, in that time; dead names
// never have an answer.
func answersWithin(took time.Duration, domain string) handler {
	return func(_ string, m dnsmessage.Message) *dnsmessage.Message {
		if !strings.HasSuffix(m.Questions[0].Name.String(), domain) {
			return nil
		}
		time.Sleep(took)
		if m.Questions[0].Type == typeA {
			return addresses(60, "192.0.2.1").reply(m)
		}
		return records{soa: &soa{60, 60}}.reply(m)
	}
}

// askAll asks for the names 0 to n-1, some at a time, and returns how many had
// no addresses.
func askAll(t *testing.T, names *egress.Names, n, atOnce int, format string) (failed int64) {
	var next, failures atomic.Int64
	var asking sync.WaitGroup
	for range atOnce {
		asking.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if _, err := names.Lookup(t.Context(), fmt.Sprintf(format, i-1)); err != nil {
					failures.Add(1)
				}
			}
		})
	}
	asking.Wait()
	return failures.Load()
}

// A callback host for each customer, all below one domain. The questions of deliveries go to a name
// server that answers, while another domain's never does.
func TestOneBigDomain(t *testing.T) {
	for _, tt := range []struct {
		took   time.Duration
		atOnce int
	}{
		{5 * time.Millisecond, 512},
		{20 * time.Millisecond, 512},
		{100 * time.Millisecond, 512},
		{300 * time.Millisecond, 512},
		{100 * time.Millisecond, 2560}, // as many as hub's deliveries may be, slow ones and all
	} {
		t.Run(fmt.Sprintf("%v %d", tt.took, tt.atOnce), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // abandoned questions end
				server := newPipeServer(answersWithin(tt.took, ".saas.example."))
				names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
				var hanging sync.WaitGroup
				hanging.Go(func() { askAll(t, names, 1000, 1000, "n%d.dead.example") })
				synctest.Wait()
				if failed := askAll(t, names, 4_000, tt.atOnce, "tenant%d.saas.example"); failed != 0 {
					t.Errorf("%d of 4,000 names had no addresses", failed)
				}
				hanging.Wait()
			})
		})
	}
}

// A domain that answered until it may ask much, and then no more, has half of
// the places at most, and few again when its questions have timed out.
func TestTrainedDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // abandoned questions end
		var dead atomic.Bool
		answer := answersWithin(time.Millisecond, ".example.")
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			if dead.Load() {
				return deadBut(healthy)(network, m)
			}
			return answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{MaxQuestions: 64, MaxPerDomain: 4, Resolver: server.resolver()})
		var asking sync.WaitGroup
		asking.Go(func() { askAll(t, names, 1000, 100, "n%d.trained.example") })
		time.Sleep(20 * time.Millisecond)
		dead.Store(true)
		time.Sleep(20 * time.Millisecond)
		if now := server.underWay(); now != 32 {
			t.Errorf("%d questions of the domain, want half of the 64 places", now)
		}
		began := time.Now()
		lookup(t, names, "healthy.example")
		if took := time.Since(began); took != 0 {
			t.Errorf("the healthy domain waited for %s", took)
		}
		time.Sleep(5 * time.Second)
		if now := server.underWay(); now > 4 {
			t.Errorf("%d questions of the domain once it had timed out, want 4", now)
		}
		asking.Wait()
	})
}

// Places that come free go to the domains in turn: the one that came last with a
// single question does not wait for all that others have in line.
func TestDomainsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // abandoned questions end
		server := newPipeServer(answersWithin(100*time.Millisecond, "."))
		names := newNames(t, egress.NamesConfig{MaxQuestions: 8, MaxPerDomain: 8, Resolver: server.resolver()})
		var asking sync.WaitGroup
		for i := range 20 {
			asking.Go(func() { lookup(t, names, fmt.Sprintf("n%d.first.example", i)) })
			asking.Go(func() { lookup(t, names, fmt.Sprintf("n%d.second.example", i)) })
		}
		synctest.Wait()
		began := time.Now()
		lookup(t, names, "third.example")
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("the third domain waited for %s, want its turn as the first places come free", took)
		}
		asking.Wait()
	})
}
