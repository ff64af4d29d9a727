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
	ln, err := program.Listen(t.Context(), "listen", "127.0.0.1:0")
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
	if _, err := program.Listen(t.Context(), "admin", ""); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Fatalf("err = %v; want one that names the flag", err)
	}
}

func TestListenNamesTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = program.Listen(t.Context(), "admin", taken.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "--admin "+taken.Addr().String()) {
		t.Fatalf("err = %v; want one that names the flag and its value", err)
	}
}

func TestBaseURL(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		ln, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		if got, want := program.BaseURL(ln, "/websub/"), "http://127.0.0.1:"+port+"/websub/"; got != want {
			t.Errorf("BaseURL for %s = %s, want %s", address, got, want)
		}
		ln.Close()
	}
}

func TestReadyIsOneLine(t *testing.T) {
	var out bytes.Buffer
	program.Ready(&out, "bell", program.Address{Name: "listen", Value: "127.0.0.1:1"}, program.Address{Name: "url", Value: "http://a/"})
	if got, want := out.String(), "bell ready listen=127.0.0.1:1 url=http://a/\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
