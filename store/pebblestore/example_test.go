package pebblestore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/topic"
)

func ExampleOpen() {
	ctx := context.Background()
	db, err := pebblestore.Open(pebblestore.Config{Dir: "hub-data", FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	receipt, err := db.Log().Append(ctx, delivery.Publication{
		Topic: topic.Parse("https://source.example/change/"), ContentType: "text/plain", Body: []byte("it changed"),
	}, uuid.New(), time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := db.Log().Read(ctx, "https://source.example/change/", receipt.Seq)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d: %s\n", n.Seq, n.Body)
	// Output: 1: it changed
}
