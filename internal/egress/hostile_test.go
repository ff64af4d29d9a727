package egress_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// deadBut never answers for names that are not in the zone.
func deadBut(z zone) handler {
	return func(network string, m dnsmessage.Message) *dnsmessage.Message {
		if _, ok := z[m.Questions[0].Name.String()]; !ok {
			return nil
		}
		return z.answer(network, m)
	}
}

var healthy = zone{"healthy.example.": {typeA: addresses(60, "192.0.2.1")}}

// A thousand names of a domain whose name server is dead are nothing to others.
func TestDeadDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(healthy))
		names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
		var asking sync.WaitGroup
		for i := range 1000 {
			asking.Go(func() {
				began := time.Now()
				if _, err := names.Lookup(t.Context(), fmt.Sprintf("n%d.dead.co.uk", i)); err == nil {
					t.Error("the dead answered")
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("an asker waited for %s", took)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		lookup(t, names, "healthy.example")
		if took := time.Since(began); took != 0 {
			t.Errorf("the healthy domain waited for %s", took)
		}
		for range 5 {
			synctest.Wait()
			if now := server.underWay(); now > egress.DefaultMaxPerDomain {
				t.Errorf("%d questions of the dead domain at once, want %d", now, egress.DefaultMaxPerDomain)
			}
			time.Sleep(time.Second)
		}
		asking.Wait()
	})
}

// Many dead domains take all places. They hold them for a second, not for five.
func TestManyDeadDomains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(healthy))
		names := newNames(t, egress.NamesConfig{MaxQuestions: 16, MaxPerDomain: 4, Resolver: server.resolver()})
		var asking sync.WaitGroup
		for i := range 8 {
			asking.Go(func() { _, _ = names.Lookup(t.Context(), fmt.Sprintf("dead%d.example", i)) })
		}
		synctest.Wait()
		if now := server.underWay(); now != 16 {
			t.Errorf("%d questions at once, want all 16 places taken", now)
		}
		began := time.Now()
		lookup(t, names, "healthy.example")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the healthy domain waited for %s", took)
		}
		asking.Wait()
	})
}

// A question that waits for places in vain is refused in time, and nothing is held against the name:
// it was not asked about.
func TestNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(zone{"late.dead.example.": healthy["healthy.example."]}))
		names := newNames(t, egress.NamesConfig{MaxQuestions: 8, MaxPerDomain: 2, Resolver: server.resolver()})
		for round := range 2 { // the second one finds as much room as the first
			var asking sync.WaitGroup
			for i := range 41 {
				asking.Go(func() {
					began := time.Now()
					if e := dnsError(t, names, fmt.Sprintf("n%d.r%d.dead.example", i, round)); time.Since(began) == 0 {
						t.Errorf("there is no room: %v", e)
					}
				})
				synctest.Wait()
			}
			// 2 are under way and 80 wait, half of the limit: further questions are refused at once.
			began := time.Now()
			e := dnsError(t, names, "late.dead.example")
			if took := time.Since(began); took != 0 || !e.IsTemporary || e.IsNotFound {
				t.Errorf("%v after %s, want a temporary error at once", e, took)
			}
			asking.Wait()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the last one waited for %s", took)
			}
			lookup(t, names, "late.dead.example")
			time.Sleep(time.Minute)
		}
	})
}

// A question that waits in vain is refused before its time is over, as too little was left to ask in;
// the next question is not refused for that.
func TestWaitingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(zone{"late.dead.example.": healthy["healthy.example."]}))
		names := newNames(t, egress.NamesConfig{MaxPerDomain: 2, Resolver: server.resolver()})
		var asking sync.WaitGroup
		asking.Go(func() { dnsError(t, names, "dead.example") })
		synctest.Wait()
		began := time.Now()
		dnsError(t, names, "late.dead.example")
		if took := time.Since(began); took != 3750*time.Millisecond {
			t.Errorf("waited for %s, want three quarters of the 5s", took)
		}
		lookup(t, names, "late.dead.example")
		asking.Wait()
	})
}

// All who wait together are bounded, whatever domains they are of.
func TestAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(healthy))
		names := newNames(t, egress.NamesConfig{MaxQuestions: 2, Resolver: server.resolver()})
		var asking sync.WaitGroup
		for i := range 21 {
			asking.Go(func() { dnsError(t, names, fmt.Sprintf("dead%d.example", i)) })
		}
		synctest.Wait()
		began := time.Now()
		dnsError(t, names, "healthy.example")
		if took := time.Since(began); took != 0 {
			t.Errorf("the 43rd question waited for %s", took)
		}
		asking.Wait()
		lookup(t, names, "healthy.example")
	})
}

// Places are given back, those of a domain while others of it are taken.
func TestPlacesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(func(network string, m dnsmessage.Message) *dnsmessage.Message {
			if m.Questions[0].Name.String() == "dead.example." {
				return nil
			}
			return addresses(60, "192.0.2.1").reply(m)
		})
		names := newNames(t, egress.NamesConfig{MaxQuestions: 4, MaxPerDomain: 4, Resolver: server.resolver()})
		var asking sync.WaitGroup
		asking.Go(func() { dnsError(t, names, "dead.example") })
		synctest.Wait()
		began := time.Now()
		for i := range 100 {
			lookup(t, names, fmt.Sprintf("n%d.dead.example", i))
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s: places were not given back", took)
		}
		asking.Wait()
	})
}

// The names below a public suffix belong to different owners.
func TestOwnersOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPipeServer(deadBut(zone{"healthy.co.uk.": healthy["healthy.example."], "sub.dead.co.uk.": healthy["healthy.example."]}))
		names := newNames(t, egress.NamesConfig{MaxPerDomain: 2, Resolver: server.resolver()})
		var asking sync.WaitGroup
		asking.Go(func() { dnsError(t, names, "dead.co.uk") })
		synctest.Wait()
		began := time.Now()
		lookup(t, names, "healthy.co.uk")
		if took := time.Since(began); took != 0 {
			t.Errorf("the neighbour waited for %s", took)
		}
		_, _ = names.Lookup(t.Context(), "sub.dead.co.uk.")
		if took := time.Since(began); took == 0 {
			t.Error("a name of the dead domain did not wait for its turn")
		}
		asking.Wait()
	})
}

// Of a big answer a few addresses are taken; one that is too big is a failure.
func TestBigAnswers(t *testing.T) {
	many := func(n int) records {
		var r records
		for i := range n {
			r.answer = append(r.answer, addresses(60, fmt.Sprintf("192.0.%d.%d", i/256, i%256)).answer...)
		}
		return r
	}
	server := newNameServer(
		t,
		zone{"many.example.": {typeA: many(60)}, "big.example.": {typeA: many(200)}, "huge.example.": {typeA: many(2000)}}.onlyTCPBeyond(1232),
	)
	names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
	for _, host := range []string{"many.example", "big.example"} {
		if addrs := lookup(t, names, host); len(addrs) != 8 {
			t.Errorf("%s: %d addresses, want 8", host, len(addrs))
		}
	}
	if e := dnsError(t, names, "huge.example"); e.IsNotFound {
		t.Errorf("a huge answer: %v, want a failure", e)
	}
}

// onlyTCPBeyond truncates what does not fit into a packet.
func (z zone) onlyTCPBeyond(size int) handler {
	return func(network string, m dnsmessage.Message) *dnsmessage.Message {
		reply := z.answer(network, m)
		if b, err := reply.Pack(); err != nil || network == "udp" && len(b) > size {
			reply.Truncated, reply.Answers = true, nil
		}
		return reply
	}
}

// A truncated answer is requested again over TCP, and the lifetime in the TCP answer counts.
func TestTruncated(t *testing.T) {
	z := zone{"a.example.": {typeA: addresses(60, "192.0.2.1")}}
	server := newNameServer(t, func(network string, m dnsmessage.Message) *dnsmessage.Message {
		reply := z.answer(network, m)
		if network == "udp" {
			reply.Truncated, reply.Answers = true, addresses(0, "192.0.2.66").reply(m).Answers
		}
		return reply
	})
	names := newNames(t, egress.NamesConfig{Resolver: server.resolver()})
	for range 2 {
		if got := lookup(t, names, "a.example"); len(got) != 1 || got[0] != "192.0.2.1" {
			t.Errorf("got %v, want what TCP answers", got)
		}
	}
	if n := server.questions("a.example.", typeA); n != 2 {
		t.Errorf("%d questions, want one over UDP and one over TCP", n)
	}
}

// forger answers each question with forged packets first. It is a fake, as a real name server does not
// lie on demand.
type forger struct {
	net.PacketConn
	net.Conn
	packets [][]byte
}

func (f *forger) Close() error                { return f.Conn.Close() }
func (f *forger) LocalAddr() net.Addr         { return f.Conn.LocalAddr() }
func (f *forger) SetDeadline(time.Time) error { return nil }

func (f *forger) SetReadDeadline(time.Time) error  { return nil }
func (f *forger) SetWriteDeadline(time.Time) error { return nil }

func (f *forger) Read(b []byte) (int, error) {
	if len(f.packets) == 0 {
		return 0, net.ErrClosed
	}
	next := f.packets[0]
	f.packets = f.packets[1:]
	return copy(b, next), nil
}

func (f *forger) Write(b []byte) (int, error) {
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		return 0, err
	}
	right := addresses(60, "192.0.2.1").reply(m)
	if m.Questions[0].Type != typeA {
		right = records{soa: &soa{3600, 3600}}.reply(m)
	}
	wrongID, wrongName, wrongType := m, m, m
	wrongID.ID++
	wrongName.Questions = []dnsmessage.Question{
		{Name: dnsmessage.MustNewName("evil.example."), Type: m.Questions[0].Type, Class: dnsmessage.ClassINET},
	}
	wrongType.Questions = []dnsmessage.Question{{Name: m.Questions[0].Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}}
	forged := addresses(1, "192.0.2.66")
	forged.soa = &soa{1, 1}
	if m.Questions[0].Type != typeA {
		forged.answer = nil
	}
	noResponse := forged.reply(m)
	noResponse.Response = false
	for _, m := range []*dnsmessage.Message{
		forged.reply(wrongID), forged.reply(wrongName), forged.reply(wrongType), noResponse, right, forged.reply(m),
	} {
		packed, err := m.Pack()
		if err != nil {
			return 0, err
		}
		f.packets = append(f.packets, packed)
	}
	f.packets = append([][]byte{{1, 2, 3}}, f.packets...)
	return len(b), nil
}

// Answers to another question, or with another id, are neither believed nor is
// their lifetime.
func TestForgedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		names := newNames(t, egress.NamesConfig{Resolver: &net.Resolver{
			PreferGo: true,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				dials++
				client, server := net.Pipe()
				server.Close()
				return &forger{Conn: client}, nil
			},
		}, MaxQuestions: 1})
		for range 2 {
			if got := lookup(t, names, "a.example"); len(got) != 1 || got[0] != "192.0.2.1" {
				t.Errorf("got %v, want the right answer", got)
			}
			time.Sleep(59 * time.Second)
		}
		if dials != 2 {
			t.Errorf("%d questions, want 2: the lifetime is that of the right answer", dials)
		}
	})
}

// FuzzAnswer: whatever a name server says over TCP, a lookup ends with at most as
// many addresses as are taken, and within its time.
func FuzzAnswer(f *testing.F) {
	seed := func(r records, of dnsmessage.Type) {
		m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: of, Class: dnsmessage.ClassINET}}}
		b, err := r.reply(m).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	seed(addresses(60, "192.0.2.1", "192.0.2.2"), typeA)
	seed(addresses(60, "2001:db8::1"), typeAAAA)
	seed(records{rcode: dnsmessage.RCodeNameError, soa: &soa{60, 60}}, typeA)
	seed(records{answer: []dnsmessage.Resource{cname(5, "a.example.", "b.example.")}}, typeA)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		answer = answer[:min(len(answer), 1<<16-1)]
		synctest.Test(t, func(t *testing.T) {
			names := newNames(t, egress.NamesConfig{Resolver: &net.Resolver{
				PreferGo: true,
				Dial: func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() {
						defer server.Close()
						query, err := readFrame(server)
						if err != nil {
							return
						}
						if len(answer) > 1 {
							copy(answer[:2], query[:2]) // the right id
						}
						_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
					}()
					return client, nil
				},
			}, MaxQuestions: 1})
			began := time.Now()
			addrs, err := names.Lookup(t.Context(), "a.example")
			if len(addrs) > 16 || len(addrs) == 0 && err == nil {
				t.Errorf("%d addresses, %v", len(addrs), err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
}
