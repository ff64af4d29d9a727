package egress_test

import (
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/internal/egress"
)

// BenchmarkDial is what a dial costs by address, by a name that is remembered,
// and by a name that package net asks for each time.
func BenchmarkDial(b *testing.B) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	b.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	server := newNameServer(b, zone{"bench.example.": {dnsmessage.TypeA: addresses(300, "127.0.0.1")}}.answer)
	d, err := egress.New(egress.Config{AllowLoopback: true, Names: server.names(b)})
	if err != nil {
		b.Fatal(err)
	}
	plain := &net.Dialer{Resolver: server.resolver()}
	for name, dial := range map[string]func() (net.Conn, error){
		"address":    func() (net.Conn, error) { return d.DialContext(b.Context(), "tcp", ln.Addr().String()) },
		"remembered": func() (net.Conn, error) { return d.DialContext(b.Context(), "tcp", "bench.example:"+port) },
		"asked":      func() (net.Conn, error) { return plain.DialContext(b.Context(), "tcp", "bench.example:"+port) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				conn, err := dial()
				if err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	server := newNameServer(b, zone{"bench.example.": {dnsmessage.TypeA: addresses(300, "127.0.0.1", "127.0.0.2")}}.answer)
	names, err := egress.NewNames(egress.NamesConfig{Resolver: server.resolver()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := names.Lookup(b.Context(), "bench.example"); err != nil {
			b.Fatal(err)
		}
	}
}
