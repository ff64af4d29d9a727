package notifier_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/store/pebblestore"
)

// A notifier between a Source's systems and a hub.
func ExampleNotifier() {
	hub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("the hub got", r.Header.Get("Content-Type"))
	}))
	defer hub.Close()
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer journal.Close()
	n, err := notifier.New(context.Background(), notifier.Config{
		Journal: journal, URL: "http://source.example/", Hub: hub.URL, Sets: []string{"reports"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()

	events := `{"loc": "https://example.org/a.pdf", "change": "created"}
{"loc": "https://example.org/b.pdf", "change": "renamed"}
`
	taken, err := n.ReadLines(ctx, strings.NewReader(events), notifier.LineReader{
		Refused: func(err error) { fmt.Println(err) },
	})
	fmt.Println("taken:", taken, err)
	fmt.Println(n.Drain(ctx))
	stop()
	fmt.Println(<-ended)
	// Output:
	// line 2: change must be created, updated or deleted (CN §3)
	// taken: 1 some lines were refused
	// the hub got application/xml
	// <nil>
	// <nil>
}
