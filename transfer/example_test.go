package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/topic"
	"carillon/transfer"
)

// Everything that one engine keeps goes into another.
func Example() {
	ctx := context.Background()
	from, to := openExample(), openExample()
	p := delivery.Publication{Topic: topic.Parse("https://source.example/bells"), ContentType: "text/plain", Body: []byte("ding")}
	if _, err := from.Log.Append(ctx, p, uuid.New(), time.Now()); err != nil {
		log.Fatal(err)
	}

	var stream bytes.Buffer
	if _, err := transfer.Export(ctx, from.Source, &stream, transfer.ExportConfig{Engine: "pebble"}); err != nil {
		log.Fatal(err)
	}
	summary, err := transfer.Import(ctx, &stream, to, transfer.ImportConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Counts)
	n, err := to.Log.Read(ctx, p.Topic.String(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d: %s\n", n.Seq, n.Body)
	// Output:
	// 1 topics, 1 notifications, 0 requests, 0 pings, 0 subscriptions, 0 gaps, 0 Sources
	// 1: ding
}

func openExample() transfer.Engine {
	db, err := pebblestore.NewMemory()
	if err != nil {
		log.Fatal(err)
	}
	return transfer.Engine{
		Source: transfer.Source{Subscriptions: db.Subscriptions(), Cursors: db.Cursors(), Log: db.Log(), Pings: db.Pings(), Sources: db.Sources()},
		Target: db.Restore(),
	}
}
