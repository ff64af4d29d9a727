package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

func newNames(t *testing.T, cfg egress.NamesConfig) *egress.Names {
	t.Helper()
	n, err := egress.NewNames(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lookup finds the addresses, in the order of their text.
func lookup(t *testing.T, n *egress.Names, host string) []string {
	t.Helper()
	addrs, err := n.Lookup(t.Context(), host)
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	slices.Sort(texts)
	return texts
}

// dnsError looks up what must fail.
func dnsError(t *testing.T, n *egress.Names, host string) *net.DNSError {
	t.Helper()
	addrs, err := n.Lookup(t.Context(), host)
	var e *net.DNSError
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v, %v, want a DNS error", host, addrs, err)
	}
	return e
}

const (
	typeA    = dnsmessage.TypeA
	typeAAAA = dnsmessage.TypeAAAA
)

func cname(ttl uint32, from, to string) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(from), TTL: ttl},
		Body:   &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)},
	}
}

func TestHowLongAnAnswerHolds(t *testing.T) {
	chain := func(alias, addr uint32) records {
		a := addresses(addr, "192.0.2.1").answer[0]
		a.Header.Name = dnsmessage.MustNewName("b.example.")
		return records{answer: []dnsmessage.Resource{cname(alias, "a.example.", "b.example."), a}}
	}
	none := func(rcode dnsmessage.RCode, ttl, minTTL uint32) records {
		return records{rcode: rcode, soa: &soa{ttl, minTTL}}
	}
	deadEnd := records{answer: []dnsmessage.Resource{cname(10, "a.example.", "b.example.")}, soa: &soa{40, 40}}
	tests := map[string]struct {
		a     records
		holds time.Duration // 0: for those who ask together
	}{
		"its TTL":                           {addresses(60, "192.0.2.1"), time.Minute},
		"the least of an alias":             {chain(20, 300), 20 * time.Second},
		"the least behind an alias":         {chain(300, 20), 20 * time.Second},
		"10 minutes at most":                {addresses(86400, "192.0.2.1"), 10 * time.Minute},
		"a TTL of 0":                        {addresses(0, "192.0.2.1"), 0},
		"a TTL that is negative":            {addresses(1<<31, "192.0.2.1"), 0},
		"no such name":                      {none(dnsmessage.RCodeNameError, 600, 30), 30 * time.Second},
		"no such name, by the SOA's TTL":    {none(dnsmessage.RCodeNameError, 20, 600), 20 * time.Second},
		"no such name, a minute at most":    {none(dnsmessage.RCodeNameError, 86400, 86400), time.Minute},
		"no such name, and nobody says how": {records{rcode: dnsmessage.RCodeNameError}, 5 * time.Second},
		"no addresses":                      {none(dnsmessage.RCodeSuccess, 30, 30), 30 * time.Second},
		"an alias of nothing":               {deadEnd, 10 * time.Second},
		"a failure":                         {records{rcode: dnsmessage.RCodeServerFailure}, 5 * time.Second},
		"a refusal":                         {records{rcode: dnsmessage.RCodeRefused}, 5 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newPipeServer(zone{"a.example.": {typeA: tt.a, typeAAAA: none(dnsmessage.RCodeSuccess, 3600, 3600)}}.answer)
				names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
				ask := func() int {
					_, _ = names.Lookup(t.Context(), "a.example")
					return server.questions("a.example.", typeA)
				}
				first := ask()
				if tt.holds > 0 {
					time.Sleep(tt.holds - time.Millisecond)
					if n := ask(); n != first {
						t.Errorf("asked again after %s", tt.holds-time.Millisecond)
					}
					time.Sleep(time.Millisecond)
				}
				if n := ask(); n != 2*first {
					t.Errorf("%d questions, want %d: it holds for %s", n, 2*first, tt.holds)
				}
			})
		})
	}
}

func TestConfiguredTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(zone{"a.example.": {typeA: addresses(3600, "192.0.2.1")}}.answer)
		names := newNames(t, egress.NamesConfig{MaxTTL: 7 * time.Second, Resolver: server.resolver()})
		lookup(t, names, "a.example")
		time.Sleep(7 * time.Second)
		lookup(t, names, "a.example")
		if n := server.questions("a.example.", typeA); n != 2 {
			t.Errorf("%d questions, want 2: an answer held for longer than MaxTTL", n)
		}
	})
}

func TestBothFamilies(t *testing.T) {
	// ::1 comes first where this machine has IPv6 at all.
	want := []string{"127.0.0.1", "::1"}
	if c, err := net.Dial("udp6", "[::1]:9"); err == nil {
		c.Close()
		slices.Reverse(want)
	}
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(zone{"a.example.": {typeA: addresses(60, "127.0.0.1"), typeAAAA: addresses(60, "::1")}}.answer)
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		for range 2 {
			addrs, err := names.Lookup(t.Context(), "a.example")
			if err != nil || len(addrs) != 2 || addrs[0].String() != want[0] || addrs[1].String() != want[1] {
				t.Errorf("%v, %v, want %v", addrs, err, want)
			}
		}
	})
}

// An IPv4 address written as an IPv6 address is one of IPv4, and is remembered as long as it holds;
// beside true IPv6 addresses it does not count.
func TestMappedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(zone{
			"mapped.example.": {typeAAAA: addresses(60, "::ffff:127.0.0.1", "::ffff:10.0.0.1")},
			"both.example.":   {typeA: addresses(60, "192.0.2.1"), typeAAAA: addresses(60, "::ffff:192.0.2.2")},
			"mixed.example.":  {typeAAAA: addresses(60, "::ffff:127.0.0.1", "2001:db8::1")},
		}.answer)
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		for name, want := range map[string]string{
			"mapped.example": "10.0.0.1 127.0.0.1", "both.example": "192.0.2.1 192.0.2.2", "mixed.example": "2001:db8::1",
		} {
			for range 2 {
				if got := strings.Join(lookup(t, names, name), " "); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			if n := server.questions(name+".", typeAAAA); n != 1 {
				t.Errorf("%s was asked for %d times", name, n)
			}
		}
		d := newDialer(t, egress.Config{Names: names})
		if _, err := d.DialContext(t.Context(), "tcp", "mapped.example:80"); !errors.Is(err, egress.ErrForbidden) {
			t.Errorf("dialing: %v", err)
		}
	})
}

// Where the addresses of one family are forgotten first, those that are asked for
// are waited for although the others are there.
func TestFamiliesHoldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := zone{"a.example.": {typeA: addresses(60, "192.0.2.1"), typeAAAA: addresses(10, "2001:db8::1")}}
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			time.Sleep(20 * time.Millisecond)
			return zone.answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		for range 2 {
			began := time.Now()
			if got := lookup(t, names, "a.example"); len(got) != 2 || time.Since(began) != 20*time.Millisecond {
				t.Errorf("%v after %s, want both after 20ms", got, time.Since(began))
			}
			time.Sleep(11 * time.Second)
		}
		if a, aaaa := server.questions("a.example.", typeA), server.questions("a.example.", typeAAAA); a != 1 || aaaa != 2 {
			t.Errorf("%d questions for IPv4 and %d for IPv6, want 1 and 2", a, aaaa)
		}
	})
}

// Each address is the first in its turn, as name servers hand them out.
func TestAddressesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(zone{"a.example.": {typeA: addresses(60, "192.0.2.1", "192.0.2.2", "192.0.2.3")}}.answer)
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		first := map[netip.Addr]int{}
		for range 9 {
			addrs, err := names.Lookup(t.Context(), "a.example")
			if err != nil || len(addrs) != 3 {
				t.Fatalf("%v, %v", addrs, err)
			}
			first[addrs[0]]++
		}
		for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			if first[netip.MustParseAddr(a)] != 3 {
				t.Fatalf("first were %v, want each three times", first)
			}
		}
	})
}

// Name servers that drop questions for IPv6 addresses cost 50 ms once in a while,
// not each lookup its patience.
func TestSilentAboutIPv6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(zone{"a.example.": {typeA: addresses(60, "192.0.2.1"), typeAAAA: {silent: true}}}.answer)
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		for _, want := range []time.Duration{50 * time.Millisecond, 0, 0} {
			began := time.Now()
			lookup(t, names, "a.example")
			if took := time.Since(began); took != want {
				t.Errorf("it took %s, want %s", took, want)
			}
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // the question ends in its time
		synctest.Wait()
		began := time.Now()
		lookup(t, names, "a.example")
		if took := time.Since(began); took != 0 {
			t.Errorf("with the failure remembered it took %s", took)
		}
	})
}

func TestAskersShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := zone{"a.example.": {typeA: addresses(0, "192.0.2.1")}}
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			time.Sleep(100 * time.Millisecond)
			return zone.answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		var asking sync.WaitGroup
		for _, host := range []string{"a.example", "A.Example", "a.EXAMPLE"} {
			for range 30 {
				asking.Go(func() {
					if _, err := names.Lookup(t.Context(), host); err != nil {
						t.Error(err)
					}
				})
			}
		}
		asking.Wait()
		if n := server.all(); n != 2 {
			t.Errorf("%d questions of 90 askers, want one for each family", n)
		}
	})
}

// A caller that gives up does so at once; the question goes on for others.
func TestAskerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := zone{"a.example.": {typeA: addresses(60, "192.0.2.1")}}
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			time.Sleep(time.Second)
			return zone.answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := names.Lookup(ctx, "a.example")
		var e *net.DNSError
		if !errors.As(err, &e) || !e.IsTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a DNS error of the asker's own deadline", err)
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("giving up took %s", took)
		}
		if _, err := names.Lookup(ctx, "b.example"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("asked after the end: %v", err)
		}
		lookup(t, names, "a.example")
		if took := time.Since(began); took != time.Second {
			t.Errorf("the next one waited until %s, want the end of the first question", took)
		}
		if n := server.all(); n != 2 {
			t.Errorf("%d questions, want 2", n)
		}
	})
}

// A name server that never answers costs the patience once, and a failure that
// is not the asker's deadline.
func TestSilence(t *testing.T) {
	for _, patience := range []time.Duration{time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := newPipeServer(zone{"a.example.": {typeA: {silent: true}, typeAAAA: {silent: true}}}.answer)
			names := newNames(t, egress.NamesConfig{Timeout: patience, Resolver: server.resolver()})
			began := time.Now()
			e := dnsError(t, names, "a.example")
			if !e.IsTimeout || e.IsNotFound || errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("%v: timeout %v, not found %v", e, e.IsTimeout, e.IsNotFound)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("it took %s", took)
			}
			asked, began := server.all(), time.Now()
			dnsError(t, names, "a.example")
			if took := time.Since(began); took != 0 || server.all() != asked {
				t.Errorf("the failure was not remembered: it took %s", took)
			}
		})
	}
}

// A resolver that reaches no name server fails as well, when its time is over.
func TestNoNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := newNames(t, egress.NamesConfig{Resolver: &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}})
		began := time.Now()
		if e := dnsError(t, names, "a.example"); e.IsNotFound || errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%v, want a failure that is not the asker's deadline", e)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// That name servers failed says more than that there are no addresses of the
// other family: it may be different soon.
func TestFailureComesFirst(t *testing.T) {
	none, failed := records{soa: &soa{60, 60}}, records{rcode: dnsmessage.RCodeServerFailure}
	for name, types := range map[string]map[dnsmessage.Type]records{
		"IPv4 failed": {typeA: failed, typeAAAA: none},
		"IPv6 failed": {typeA: none, typeAAAA: failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newPipeServer(zone{"a.example.": types}.answer)
				if e := dnsError(t, newNames(t, egress.NamesConfig{Resolver: server.resolver()}), "a.example"); e.IsNotFound {
					t.Errorf("%v, want the failure", e)
				}
			})
		})
	}
}

// A packet that is lost costs 2 s.
func TestLostPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, lost := zone{"a.example.": {typeA: addresses(60, "192.0.2.1")}}, map[dnsmessage.Type]bool{}
		var mu sync.Mutex
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			mu.Lock()
			defer mu.Unlock()
			if of := m.Questions[0].Type; !lost[of] {
				lost[of] = true
				return nil
			}
			return zone.answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		began := time.Now()
		lookup(t, names, "a.example")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %s, want 2s", took)
		}
	})
}

// The names that are used are remembered, of the others as many as there is room for.
func TestRoomForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(func(_ string, m dnsmessage.Message) *dnsmessage.Message {
			return records{rcode: dnsmessage.RCodeNameError, soa: &soa{60, 60}}.reply(m)
		})
		names := newNames(t, egress.NamesConfig{MaxNames: 3, Resolver: server.resolver()})
		for _, host := range []string{"a.example", "b.example", "c.example", "a.example", "d.example"} {
			dnsError(t, names, host)
		}
		before := server.all()
		for _, host := range []string{"a.example", "c.example", "d.example"} {
			dnsError(t, names, host)
		}
		if n := server.all(); n != before {
			t.Errorf("%d questions for names that were used last", n-before)
		}
		dnsError(t, names, "b.example")
		if n := server.all(); n != before+2 {
			t.Errorf("%d questions for the name that was not used for longest, want 2", n-before)
		}
	})
}

// A name under question takes no room from those that are remembered, and is itself not
// forgotten before its answer came: it is asked for once, whatever else is.
func TestQuestionsDisplaceNoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		known := zone{"a.example.": {typeA: addresses(60, "192.0.2.1")}, "slow.example.": {typeA: addresses(60, "192.0.2.2")}}
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			switch name := m.Questions[0].Name.String(); {
			case strings.HasSuffix(name, ".dead.example."):
				return nil
			case name == "slow.example.":
				<-release
			}
			return known.answer(network, m)
		})
		names := newNames(t, egress.NamesConfig{MaxNames: 2, MaxQuestions: 4, MaxPerDomain: 2, Resolver: server.resolver()})
		lookup(t, names, "a.example")
		var asking sync.WaitGroup
		defer asking.Wait()
		ask := func(host string, want bool) {
			asking.Go(func() {
				if _, err := names.Lookup(t.Context(), host); (err == nil) != want {
					t.Errorf("%s: %v", host, err)
				}
			})
			synctest.Wait()
		}
		ask("slow.example", true)
		for i := range 100 { // of which a line of 40 has room
			ask(string(rune('a'+i%26))+string(rune('a'+i/26))+".dead.example", false)
		}
		ask("slow.example", true)
		lookup(t, names, "a.example")
		close(release)
		synctest.Wait()
		lookup(t, names, "slow.example")
		for _, name := range []string{"a.example.", "slow.example."} {
			if n := server.questions(name, typeA); n != 1 {
				t.Errorf("%s was asked for %d times, want once", name, n)
			}
		}
	})
}

// An address that needs no name server asks none.
func TestNobodyIsAsked(t *testing.T) {
	server := newPipeServer(zone{}.answer)
	names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
	for host, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "2001:db8::7": "2001:db8::7", "::ffff:192.0.2.7": "192.0.2.7", "localhost": "127.0.0.1",
	} {
		if got := lookup(t, names, host); !slices.Contains(got, want) {
			t.Errorf("%s: %v, want %s", host, got, want)
		}
	}
	for _, host := range []string{"", strings.Repeat("a.", 200), "no..name"} {
		if e := dnsError(t, names, host); !e.IsNotFound {
			t.Errorf("%q: %v, want that there is no such host", host, e)
		}
	}
	if n := server.all(); n != 0 {
		t.Errorf("%d questions", n)
	}
}
