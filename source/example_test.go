package source_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/topic"
)

// A Source is registered, and publishes with its token.
func Example() {
	ctx := context.Background()
	db, err := pebblestore.NewMemory()
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	one, token, err := source.New("archive", []string{"https://archive.example/"}, time.Now())
	if err != nil {
		log.Fatal(err)
	}
	if err := source.Register(ctx, db.Sources(), one); err != nil {
		log.Fatal(err)
	}
	registry, err := source.NewRegistry(db.Sources(), source.Config{}, nil, nil)
	if err != nil {
		log.Fatal(err)
	}

	header := http.Header{"Authorization": {"Bearer " + string(token)}}
	sent, err := source.BearerToken(header.Values("Authorization"))
	if err != nil {
		log.Fatal(err)
	}
	grant, err := registry.Authenticate(ctx, sent)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(
		sent, grant.Name(), grant.Covers(topic.Parse("https://archive.example/books/change/")),
		grant.Covers(topic.Parse("https://other.example/")),
	)
	// Output: [token] archive true false
}
