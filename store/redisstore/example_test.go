package redisstore_test

import (
	"context"
	"errors"
	"fmt"

	"carillon/store/redisstore"
	"carillon/subscription"
)

func ExampleOpen() {
	// Open does not connect, so that a hub can start before its Redis.
	db, err := redisstore.Open(redisstore.Config{URL: "redis://127.0.0.1:1/0?prefix=example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := db.Ready(context.Background()); errors.Is(err, subscription.ErrUnavailable) {
		fmt.Println("not yet")
	}
	// Output: not yet
}

func ExampleParseURL() {
	u, err := redisstore.ParseURL("redis+sentinel://hub:sesame@a:26379,b:26379/main/0?replicas=1")
	fmt.Println(u, err)
	_, err = redisstore.ParseURL("redis+cluster://a:7000,b:7000/3")
	fmt.Println(err)
	// Output:
	// redis+sentinel://hub:xxxxx@a:26379,b:26379/main/0?replicas=1 <nil>
	// the store's URL: a Cluster has no database but 0, and the path of its URL is empty
}
