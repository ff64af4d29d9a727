package weblink_test

import (
	"fmt"

	"carillon/internal/weblink"
)

func ExampleParse() {
	links, err := weblink.Parse([]string{
		`<http://example.com/dataset1/change/>;rel=self, <http://hub.example.org/websub/> ; REL="hub"`,
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, hub := range weblink.Find(links, "hub") {
		fmt.Println(hub.URI)
		fmt.Println(hub)
	}
	// Output:
	// http://hub.example.org/websub/
	// <http://hub.example.org/websub/>; rel="hub"
}
