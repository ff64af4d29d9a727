package standing_test

import (
	"testing"

	"carillon/internal/standing"
)

func TestAround(t *testing.T) {
	for client, want := range map[string]string{
		"2001:db8:1:2::/64": "2001:db8:1::/48", "2001:db8:1:ffff::/64": "2001:db8:1::/48", "2001:db8:2:2::/64": "2001:db8:2::/48",
		"192.0.2.1": "", "": "", "unknown": "", "192.0.2.0/24": "",
	} {
		if got := standing.Around(client); got != want {
			t.Errorf("%q: %q, want %q", client, got, want)
		}
	}
}
