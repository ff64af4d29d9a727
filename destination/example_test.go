package destination_test

import (
	"context"
	"log"
	"net/http"
	"os"

	"carillon/destination"
)

// A Destination within another program: its callback is a handler.
func Example() {
	d, err := destination.New(destination.Config{
		Topic: "http://example.com/dataset1/change/",
		URL:   "https://destination.example.net/",
		Data:  "destination-data",
		Sink:  destination.NewPrinter(os.Stdout, false),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	go func() { log.Print(http.ListenAndServe("127.0.0.1:8092", d)) }()
	if err := d.Run(context.Background()); err != nil {
		log.Print(err)
	}
}
