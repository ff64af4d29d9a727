package faults_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/internal/faults"
)

// Every disturbance happens. A request whose answer could not be lost gets its success, and one that
// was not taken in gets none.
func TestNetwork(t *testing.T) {
	const requests = 1200
	network := faults.NewNetwork(faults.NetworkConfig{Seed: 7, Rate: 0.9, SlowMax: 4 * time.Millisecond})
	var mu sync.Mutex
	taken := map[string]bool{} // by path: whether the answer may be lost
	answer := func(r *http.Request, lost bool) faults.Answer {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "hello" {
			t.Errorf("the callback read %q, error %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		taken[r.URL.Path] = lost
		return faults.Answer{Status: http.StatusOK, Header: http.Header{"X-Who": {"me"}}, Body: []byte("thanks")}
	}
	address := serve(t, network, answer)
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for n := range requests {
		path := fmt.Sprintf("/%d", n)
		resp, err := client.Post(address+path, "text/plain", strings.NewReader("hello"))
		success := false
		if err == nil {
			body, readErr := io.ReadAll(resp.Body)
			resp.Body.Close()
			success = resp.StatusCode == 200 && readErr == nil && string(body) == "thanks" && resp.Header.Get("X-Who") == "me"
		}
		mu.Lock()
		lost, took := taken[path]
		mu.Unlock()
		switch {
		case success && !took:
			t.Errorf("request %d got an answer that nobody gave", n)
		case took && !lost && !success:
			t.Errorf("request %d: the answer was not to be lost, and was: %v", n, err)
		}
	}
	checkKinds(t, network.Counts(), requests)
	harmless := 0
	for _, kind := range []string{"delayed", "trickled", "closed after the answer"} {
		harmless += network.Counts()[kind]
	}
	total := 0
	for _, n := range network.Counts() {
		total += n
	}
	if failed := network.Failed(); failed != total-harmless {
		t.Errorf("%d of %d faults are told to have failed a request, and %d are harmless", failed, total, harmless)
	}
	network.Calm()
	before := len(network.Counts())
	for range 100 {
		resp, err := client.Post(address+"/calm", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if len(network.Counts()) != before {
		t.Error("there were faults after Calm")
	}
}

func checkKinds(t *testing.T, counts map[string]int, requests int) {
	t.Helper()
	total := 0
	for kind, n := range counts {
		t.Logf("%4d %s", n, kind)
		total += n
	}
	if len(counts) != 20 {
		t.Errorf("%d kinds of faults happened, want all 20", len(counts))
	}
	if total < requests*8/10 {
		t.Errorf("%d faults in %d requests", total, requests)
	}
}

// serve serves on a port of its own until the test ends.
func serve(t *testing.T, network *faults.Network, answer func(*http.Request, bool) faults.Answer) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: network.Handler(answer)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(network.Listener(ln)) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}
