package directory_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"carillon/notifier"
	"carillon/notifier/directory"
)

// A directory becomes a set. In a program Sink is the notifier.Notifier, and State what it keeps.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "tide tables.txt"), []byte("high and low\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	journal := newState()
	journal.news = make(chan notifier.Event, 1)
	d, err := directory.New(context.Background(), directory.Config{
		Set: "maps", Dir: dir, Base: "https://source.example/files/",
		Settle: 10 * time.Millisecond, Sink: journal, State: journal,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	event := <-journal.news
	fmt.Println(event.Change, event.Loc, event.Type, event.Length)
	fmt.Println(event.Hash)
	stop()
	fmt.Println(<-ended)
	// Output:
	// created https://source.example/files/tide%20tables.txt text/plain 13
	// sha-256:16b132620b1c0e08f1fee0b5c95e48c509072afc0d320b7ecf6d7b21e2fef6f7
	// <nil>
}
