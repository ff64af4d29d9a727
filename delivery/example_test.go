package delivery_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/internal/egress"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// A hub in small: one process owns all shards, somebody is subscribed, and what
// is published reaches the callback.
func ExampleDispatcher() {
	done := make(chan struct{})
	callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s %s\n%s\n", r.Method, r.URL, body, r.Header.Get("Link"))
		close(done)
	}))
	defer callback.Close()

	db, err := pebblestore.Open(pebblestore.Config{Dir: "hub-data", FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	// A hub goes out through internal/egress, and not to its own machine.
	out, err := egress.New(egress.Config{AllowLoopback: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	sender, err := delivery.NewHTTPSender(delivery.SenderConfig{Hub: "https://hub.example/websub/"}, out)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A hub's Ender is its subscription.Service. Nobody answers 410 here.
	d, err := delivery.New(delivery.Config{}, delivery.Stores{Log: db.Log(), Cursors: db.Cursors()}, nil, sender, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The shards are handed back after deliveries have ended and are saved. The
	// Dispatcher is their Holder; counting tells when it has all of them.
	ctx, stop := context.WithCancel(context.Background())
	owning, handBack := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	owned := make(chan struct{})
	go func() { ended <- db.Shards().Run(owning, &counting{Dispatcher: d, owned: owned}) }()
	<-owned
	go func() {
		defer handBack()
		ended <- d.Run(ctx)
	}()

	const topic = "https://example.com/change/"
	d.Activated(subscription.Subscription{
		ID: subscription.NewID(topic, callback.URL+"/hook?id=%37"), Topic: topic,
		Callback: callback.URL + "/hook?id=%37", Expires: time.Now().Add(time.Hour),
	})
	receipt, err := d.Publish(context.Background(), delivery.Publication{
		Topic: topic, ContentType: "text/plain", Body: []byte("something changed"),
	})
	fmt.Println("published", receipt.Seq, err)
	<-done
	stop()
	fmt.Println(<-ended, <-ended)
	// Unordered output:
	// published 1 <nil>
	// POST /hook?id=%37 something changed
	// <https://hub.example/websub/>; rel="hub", <https://example.com/change/>; rel="self"
	// <nil> <nil>
}

// An HTTPSender alone makes one attempt and says what came of it.
func ExampleHTTPSender() {
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer callback.Close()
	out, err := egress.New(egress.Config{AllowLoopback: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	sender, err := delivery.NewHTTPSender(delivery.SenderConfig{Hub: "https://hub.example/websub/"}, out)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := sender.Send(context.Background(), &delivery.Attempt{
		Callback:     callback.URL + "/hook",
		Secret:       "a secret of the subscriber",
		Notification: &delivery.Notification{Publication: delivery.Publication{Topic: "https://example.com/change/"}},
		Number:       1,
	})
	fmt.Println(outcome.Class, outcome.Status, outcome.RetryAfter)
	// Output: client_error 429 2m0s
}
