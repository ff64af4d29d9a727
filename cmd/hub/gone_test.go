package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A callback that answers 410 has its subscription ended for good; when it
// subscribes again it gets what is published from then on.
func TestGoneAndBack(t *testing.T) {
	t.Parallel()
	listen, store := fmt.Sprintf("127.0.0.1:%d", freePort(t)), "pebble:"+t.TempDir()
	hub := "http://" + listen + "/websub/"
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	topic := server.URL + "/topic"
	got := make(chan string)
	confirmed := make(chan struct{})
	mux.HandleFunc("/topic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Link", fmt.Sprintf(`<%s>; rel="hub", <%s>; rel="self"`, hub, topic))
	})
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		confirmed <- struct{}{}
	})
	mux.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		if string(body) == "unwanted" {
			w.WriteHeader(http.StatusGone)
		}
	})
	for _, body := range []string{"unwanted", "wanted"} {
		p := startHub(t, "--listen", listen, "--admin", "127.0.0.1:0", "--store", store)
		if status, answer, err := subscribe(hub, topic, server.URL+"/callback", nil); err != nil || status != http.StatusAccepted {
			t.Fatal(status, answer, err)
		}
		<-confirmed
		if status, answer, err := publish(hub, topic, "text/plain", body); err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
		if arrived := <-got; arrived != body {
			t.Fatalf("%q arrived, want %q", arrived, body)
		}
		if err := p.stop(t); err != nil { // when the answer was heeded
			t.Fatalf("the hub ended with %v\n%s", err, p.log)
		}
	}
}
