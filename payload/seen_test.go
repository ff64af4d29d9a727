package payload_test

import (
	"fmt"
	"strings"
	"testing"

	"carillon/payload"
)

// TestResourcesListedTwice: an Inspector finds each resource that a list has again, however long
// the list is, and counts them.
func TestResourcesListedTwice(t *testing.T) {
	const n = 20_000
	var doc strings.Builder
	doc.WriteString(upLink + resourceMD)
	for i := range n {
		fmt.Fprintf(&doc, "<url><loc>https://a.example/%d</loc></url>\n", i)
	}
	for i := range 7 {
		fmt.Fprintf(&doc, "<url><loc>https://a.example/%d</loc></url>\n", 1000*i)
	}
	i := payload.NewInspector("")
	if _, _, err := inspect(strings.NewReader(urlset(doc.String())), i); err != nil {
		t.Fatal(err)
	}
	found := i.Violations()
	if len(found) != 1 || found[0].Clause != "core §10.1" || found[0].Times != 7 || found[0].Element != fmt.Sprintf("url[%d]/loc", n+1) {
		t.Errorf("got %+v", found)
	}
}
