package program_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

func TestServeFinishesWhatItBegan(t *testing.T) {
	ln, err := program.Listen(t.Context(), program.Endpoint{Flag: "listen", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	begun, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		io.WriteString(w, "done")
	})
	served := make(chan error, 1)
	go func() { served <- program.Serve(ctx, ln, handler, slog.New(slog.DiscardHandler)) }()
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-begun
	stop()
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("a request under way at the stop got %q; want its answer", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestListenRefusesAnEmptyAddress(t *testing.T) {
	if _, err := program.Listen(t.Context(), program.Endpoint{Flag: "admin"}); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Fatalf("err = %v; want one that names the flag", err)
	}
}

func TestListenNamesTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = program.Listen(t.Context(), program.Endpoint{Flag: "admin", Address: taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "--admin "+taken.Addr().String()) {
		t.Fatalf("err = %v; want one that names the flag and its value", err)
	}
}

func TestBaseURL(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false, ":0": false} {
		ln, err := program.Listen(t.Context(), program.Endpoint{Flag: "listen", Address: address})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		got, err := ln.BaseURL("/websub/")
		if ok && (err != nil || got != "http://"+ln.Addr().String()+"/websub/") {
			t.Errorf("BaseURL for %s = %q, %v", address, got, err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), "--url")) {
			t.Errorf("BaseURL for %s: err = %v; want one that asks for --url", address, err)
		}
	}
}

func TestReadyIsOneLine(t *testing.T) {
	var out bytes.Buffer
	program.Ready(&out, "bell", program.Address{Name: "listen", Value: "127.0.0.1:1"}, program.Address{Name: "url", Value: "http://a/"})
	if got, want := out.String(), "bell ready listen=127.0.0.1:1 url=http://a/\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
