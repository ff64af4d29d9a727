package dispatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// A small hub: one process owns all shards, one callback is subscribed, and the publication reaches
// it.
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
	sender, err := send.NewHTTPSender(send.Config{Hub: "https://hub.example/websub/"}, out)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A hub's Ender is its subscription.Service. No callback answers 410 here.
	surety := &subscription.Surety{}
	d, err := dispatch.New(dispatch.Config{Surety: surety}, dispatch.Stores{Log: db.Log(), Cursors: db.Cursors()}, nil, sender, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The shards are handed back after deliveries have ended and are saved. The
	// Dispatcher and its Surety are their Holder; counting reports when it has all of them.
	ctx, stop := context.WithCancel(context.Background())
	owning, handBack := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	owned := make(chan struct{})
	go func() { ended <- db.Shards().Run(owning, &counting{Dispatcher: d, Surety: surety, owned: owned}) }()
	<-owned
	go func() {
		defer handBack()
		ended <- d.Run(ctx)
	}()

	const topicURL = "https://example.com/change/"
	d.Activated(subscription.Subscription{
		ID: subscription.NewID(topicURL, callback.URL+"/hook?id=%37"), Topic: topicURL,
		Callback: callback.URL + "/hook?id=%37", Expires: time.Now().Add(time.Hour),
	})
	receipt, err := d.Publish(context.Background(), delivery.Publication{
		Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte("something changed"),
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
