package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// Package net reads its files when it is asked for a name for the first time, and
// guards them with channels: those must not belong to the bubble of one test.
func TestMain(m *testing.M) {
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("nobody is asked")
	}}
	_, _ = r.LookupHost(context.Background(), "first.example.")
	os.Exit(m.Run())
}

// handler answers a question; network is udp or tcp. A nil message means no answer, ever.
type handler func(network string, m dnsmessage.Message) *dnsmessage.Message

// zone is what a name server knows: the answers by name and type.
type zone map[string]map[dnsmessage.Type]records

// records are an answer.
type records struct {
	rcode  dnsmessage.RCode
	silent bool // no answer ever comes
	answer []dnsmessage.Resource
	soa    *soa
}

// soa says how long a negative answer holds.
type soa struct{ ttl, minTTL uint32 }

// answer answers from the zone: NXDOMAIN for what it does not know at all, and
// no data for another type.
func (z zone) answer(_ string, m dnsmessage.Message) *dnsmessage.Message {
	q := m.Questions[0]
	types, ok := z[q.Name.String()]
	r := types[q.Type]
	if !ok {
		r.rcode = dnsmessage.RCodeNameError
	}
	return r.reply(m)
}

func (r records) reply(m dnsmessage.Message) *dnsmessage.Message {
	if r.silent {
		return nil
	}
	m.Response, m.RecursionAvailable, m.RCode, m.Additionals = true, true, r.rcode, nil
	for _, a := range r.answer {
		if a.Header.Name.Length == 0 {
			a.Header.Name = m.Questions[0].Name
		}
		a.Header.Class = dnsmessage.ClassINET
		m.Answers = append(m.Answers, a)
	}
	if r.soa != nil {
		m.Authorities = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("example."), Class: dnsmessage.ClassINET, TTL: r.soa.ttl},
			Body: &dnsmessage.SOAResource{
				NS: dnsmessage.MustNewName("ns.example."), MBox: dnsmessage.MustNewName("admin.example."), MinTTL: r.soa.minTTL,
			},
		}}
	}
	return &m
}

// addresses are records of the name that was asked for.
func addresses(ttl uint32, addrs ...string) records {
	var r records
	for _, s := range addrs {
		h := dnsmessage.ResourceHeader{TTL: ttl}
		if a := netip.MustParseAddr(s); a.Is4() {
			r.answer = append(r.answer, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		} else {
			r.answer = append(r.answer, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	return r
}

// nameServer counts what it is asked.
type nameServer struct {
	handle handler
	dial   func(ctx context.Context, network, server string) (net.Conn, error)

	mu    sync.Mutex
	asked map[string]int // by name and type
	open  int            // connections
}

func (s *nameServer) resolver() *net.Resolver { return &net.Resolver{PreferGo: true, Dial: s.dial} }

// names are Names that ask the server.
func (s *nameServer) names(t testing.TB) *egress.Names {
	t.Helper()
	names, err := egress.NewNames(egress.NamesConfig{Resolver: s.resolver()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// questions is how often a name was asked for, by one type.
func (s *nameServer) questions(name string, of dnsmessage.Type) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name+of.String()]
}

// underWay is how many connections are open.
func (s *nameServer) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// all is how many questions there were.
func (s *nameServer) all() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for _, n := range s.asked {
		all += n
	}
	return all
}

// respond returns the answer to a packed question, packed. Nil means no answer.
func (s *nameServer) respond(network string, query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	s.asked[m.Questions[0].Name.String()+m.Questions[0].Type.String()]++
	s.mu.Unlock()
	reply := s.handle(network, m)
	if reply == nil {
		return nil
	}
	packed, err := reply.Pack()
	if err != nil {
		panic(err)
	}
	return packed
}

// newPipeServer is a name server in memory, for tests in bubbles. Its connections
// are streams, which net takes for TCP.
func newPipeServer(handle handler) *nameServer {
	s := &nameServer{handle: handle, asked: map[string]int{}}
	s.dial = func(_ context.Context, network, _ string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			s.count(1)
			defer s.count(-1)
			s.serveStream(network, server)
		}()
		return client, nil
	}
	return s
}

func (s *nameServer) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

// serveStream answers one question, and goes when the other side does.
func (s *nameServer) serveStream(network string, conn net.Conn) {
	defer conn.Close()
	query, err := readFrame(conn)
	if err != nil {
		return
	}
	if reply := s.respond(network, query); reply != nil {
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	}
	_, _ = conn.Read(make([]byte, 1))
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// newNameServer is a name server on loopback, over UDP and TCP.
func newNameServer(t testing.TB, handle handler) *nameServer {
	t.Helper()
	s := &nameServer{handle: handle, asked: map[string]int{}}
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { packets.Close(); streams.Close(); serving.Wait() })
	serving.Go(func() { s.servePackets(packets) })
	serving.Go(func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serveStream("tcp", conn) })
		}
	})
	s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		if network == "tcp" {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", streams.Addr().String())
		}
		return (&net.Dialer{}).DialContext(ctx, "udp4", packets.LocalAddr().String())
	}
	return s
}

func (s *nameServer) servePackets(packets net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := packets.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := s.respond("udp", buf[:n]); reply != nil {
			_, _ = packets.WriteTo(reply, from)
		}
	}
}
