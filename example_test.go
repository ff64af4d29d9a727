package carillon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"carillon"
)

// A hub inside the router that a program has already.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "hub-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	router := mux.NewRouter() // with the program's own routes
	server := httptest.NewServer(router)
	defer server.Close()

	h, err := carillon.Open(carillon.Config{
		URL:        server.URL + "/websub/",
		Store:      "pebble:" + filepath.Join(dir, "store"),
		Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"hub": "main"}, prometheus.NewRegistry()),
	})
	if err != nil {
		log.Fatal(err)
	}
	router.PathPrefix("/websub/").Handler(h.Handler())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-h.Ready()

	answer, err := http.Get(server.URL + "/websub/")
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	stop()
	fmt.Println(answer.Status, <-ended)
	// Output: 200 OK <nil>
}

// A hub whose program has the listeners: the public one with TLS, and one for operators that only
// this machine reaches.
func ExampleHub_Run() {
	dir, err := os.MkdirTemp("", "hub-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	public := httptest.NewUnstartedServer(nil) // http.Server with the program's certificate
	url := "https://" + public.Listener.Addr().String() + "/websub/"
	h, err := carillon.Open(carillon.Config{URL: url, Store: "pebble:" + filepath.Join(dir, "store"), NoSelfCheck: true})
	if err != nil {
		log.Fatal(err)
	}
	public.Config.Handler = h.Handler()
	public.StartTLS()
	defer public.Close()
	operators := &http.Server{Handler: h.Operator()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go operators.Serve(ln)
	defer operators.Close()

	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-h.Ready()
	answer, err := public.Client().Get(url)
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Status, answer.TLS != nil)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK true
	// <nil>
}

// A hub on Redis, which several processes share. Run waits for Redis where it is away.
func ExampleOpen_redis() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := serveOnRedis(ctx, "redis://127.0.0.1:6379/0", http.NewServeMux(), func() {}); err != nil {
		log.Fatal(err)
	}
}

// serveOnRedis has a hub on Redis at /websub/ until ctx ends.
func serveOnRedis(ctx context.Context, store string, routes *http.ServeMux, ready func()) error {
	h, err := carillon.Open(carillon.Config{
		URL:    "https://hub.example.org/websub/", // the same in each process
		Store:  store,
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	routes.Handle("/websub/", h.Handler())
	go func() {
		select {
		case <-h.Ready():
			ready()
		case <-ctx.Done():
		}
	}()
	return errors.Join(h.Run(ctx), h.Close())
}
