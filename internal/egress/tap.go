package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// exchangeTimeout is what one name server gets for one attempt, before the
	// next one is asked: a packet may be lost, a server may be down.
	exchangeTimeout = 2 * time.Second
	// maxAnswer is the largest answer that is read over TCP, bytes. Thousands of
	// addresses would cost more than a name is worth.
	maxAnswer = 4 << 10
)

var errTooBig = errors.New("the answer is too big")

// tap reads along what name servers answer to one question, for the lifetimes
// that package net keeps to itself (it answers with addresses only). It judges
// nothing: which answer counts is for net to say, by the same rules.
type tap struct {
	deadline time.Time // of the question

	mu    sync.Mutex
	heard heard // guarded by mu
}

// heard is what name servers answered to one question.
type heard struct {
	asked bool           // a name server was asked at all
	have  *time.Duration // lifetime of the last answer with addresses
	none  *time.Duration // lifetime of the last one without
	// mapped are the addresses of the last answer with some that are IPv4-mapped IPv6 addresses:
	// net leaves them out.
	mapped []netip.Addr
}

// tapKey is where a context holds the tap of its question: net keeps the values
// of a context for its Dial, and nothing else of it.
type tapKey struct{}

// tapped is a resolver like r whose connections are read along.
func tapped(r *net.Resolver) *net.Resolver {
	if r == nil {
		r = &net.Resolver{PreferGo: true}
	}
	dial := r.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &net.Resolver{
		PreferGo: r.PreferGo, StrictErrors: r.StrictErrors,
		Dial: func(ctx context.Context, network, server string) (net.Conn, error) {
			t, ok := ctx.Value(tapKey{}).(*tap)
			if !ok {
				return nil, errors.New("egress: the question has ended")
			}
			t.learn(func(h *heard) { h.asked = true })
			until := earlier(t.deadline, time.Now().Add(exchangeTimeout))
			ctx, cancel := context.WithDeadline(ctx, until)
			defer cancel()
			conn, err := dial(ctx, network, server)
			if err != nil {
				return nil, err
			}
			return t.over(conn, until), nil
		},
	}
}

// over returns the connection, read along. It is one for packets if conn is:
// that is how net reports how messages are framed.
func (t *tap) over(conn net.Conn, until time.Time) net.Conn {
	tc := &tapConn{Conn: conn, tap: t, until: until}
	if p, ok := conn.(net.PacketConn); ok {
		tc.packets = true
		return struct {
			*tapConn
			packetConn
		}{tc, p}
	}
	return tc
}

// packetConn is by what net knows a connection for packets. It calls neither method.
type packetConn interface {
	ReadFrom(b []byte) (int, net.Addr, error)
	WriteTo(b []byte, to net.Addr) (int, error)
}

// tapConn carries one question and its answer.
type tapConn struct {
	net.Conn
	tap      *tap
	until    time.Time
	packets  bool
	question []byte
	answer   []byte // of a stream: the length and what came so far
}

// SetDeadline keeps to the limit of the exchange.
func (c *tapConn) SetDeadline(at time.Time) error { return c.Conn.SetDeadline(earlier(at, c.until)) }

func (c *tapConn) Write(b []byte) (int, error) {
	c.question = slices.Clone(b)
	if !c.packets {
		c.question = b[min(2, len(b)):]
	}
	return c.Conn.Write(b)
}

func (c *tapConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.packets {
		c.tap.see(c.question, b[:n])
		return n, err
	}
	c.answer = append(c.answer, b[:n]...)
	if len(c.answer) < 2 {
		return n, err
	}
	length := int(binary.BigEndian.Uint16(c.answer))
	if length > maxAnswer {
		return 0, errTooBig
	}
	if msg := c.answer[2:]; len(msg) >= length {
		c.tap.see(c.question, msg[:length])
	}
	return n, err
}

// see takes the lifetimes from a message, if it answers the question. Any other may be forged: net
// goes on waiting for the right one.
func (t *tap) see(question, msg []byte) {
	var asked, p dnsmessage.Parser
	sent, err := asked.Start(question)
	if err != nil {
		return
	}
	q, err := asked.Question()
	if err != nil {
		return
	}
	h, err := p.Start(msg)
	if err != nil || !h.Response || h.ID != sent.ID {
		return
	}
	of, err := p.Question()
	if err != nil || of.Type != q.Type || of.Class != q.Class || !strings.EqualFold(of.Name.String(), q.Name.String()) ||
		p.SkipAllQuestions() != nil {
		return
	}
	ttl, found, mapped, err := leastTTL(&p, q.Type)
	if err != nil {
		return
	}
	switch {
	case found:
		t.learn(func(h *heard) { h.have, h.mapped = &ttl, mapped })
	case h.RCode == dnsmessage.RCodeNameError, h.RCode == dnsmessage.RCodeSuccess:
		if soa, ok := negativeTTL(&p); ok {
			ttl = min(ttl, soa)
			t.learn(func(h *heard) { h.none = &ttl })
		}
	}
}

// leastTTL reads the answers, the aliases on the way to the addresses included: all must hold (RFC
// 2308 §5 for those that lead nowhere). It also returns the IPv4 addresses that are written as IPv6
// addresses.
func leastTTL(
	p *dnsmessage.Parser, want dnsmessage.Type,
) (least time.Duration, found bool, mapped []netip.Addr, err error) {
	least = math.MaxInt64
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return least, found, mapped, nil
		}
		if err != nil {
			return 0, false, nil, err
		}
		least = min(least, seconds(h.TTL))
		found = found || h.Type == want
		if h.Type != dnsmessage.TypeAAAA {
			err = p.SkipAnswer()
		} else if r, failed := p.AAAAResource(); failed != nil {
			err = failed
		} else if addr := netip.AddrFrom16(r.AAAA); addr.Is4In6() {
			mapped = append(mapped, addr.Unmap())
		}
		if err != nil {
			return 0, false, nil, err
		}
	}
}

// negativeTTL is the lifetime of an answer without addresses (RFC 2308 §5).
func negativeTTL(p *dnsmessage.Parser) (time.Duration, bool) {
	for {
		h, err := p.AuthorityHeader()
		if err != nil {
			return 0, false
		}
		if h.Type != dnsmessage.TypeSOA {
			if p.SkipAuthority() != nil {
				return 0, false
			}
			continue
		}
		soa, err := p.SOAResource()
		if err != nil {
			return 0, false
		}
		return min(seconds(h.TTL), seconds(soa.MinTTL)), true
	}
}

// seconds is a TTL. A value with the highest bit set counts as 0 (RFC 2181 §8).
func seconds(ttl uint32) time.Duration {
	if ttl > math.MaxInt32 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

// learn changes what was heard.
func (t *tap) learn(change func(*heard)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.heard)
}

// learned returns what was heard. A connection that net has given up may hear more.
func (t *tap) learned() heard {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
