package lists_test

import (
	"net/http"
	"testing"

	"carillon/destination/lists"
)

// A Destination that polls the address of one list finds it moved to the archive when that list has
// gone: it goes on from there, by the archive and to the live lists, without a gap.
func TestAPolledListIsInTheArchive(t *testing.T) {
	for name, capability := range map[string]bool{"an open list links to the archive": false, "the Capability List names it": true} {
		t.Run(name, func(t *testing.T) {
			pages := past(capability)
			pages["/live-1.xml"] = page{status: http.StatusMovedPermanently, header: map[string]string{"Location": site + "/1.xml"}}
			w := newNetwork(t, pages)
			c := w.client(lists.Config{})
			got, covered, err := visits(t, c, site+"/live-1.xml", "10:15")
			if err != nil || got != "b c d e f" || !covered.Until.Equal(at("12:20")) {
				t.Errorf("visited %q; %+v, %v; asked for %v", got, covered, err, w.asks())
			}
		})
	}
}
