package subscription_test

import (
	"testing"

	"carillon/subscription"
)

// Two spellings that WebSub §5.1.1 calls the same name one subscription; a
// topic and a callback never run into each other.
func TestNewID(t *testing.T) {
	id := subscription.NewID("http://t.example/~x", "http://c.example/?k=a")
	if got := subscription.NewID("http://t.example/%7Ex", "http://c.example/?%6b=a"); got != id {
		t.Errorf("another spelling gave %s, want %s", got, id)
	}
	iri := subscription.NewID("http://t.example/é", "http://c.example/ü")
	if uri := subscription.NewID("HTTP://t.example/%C3%A9", "http://c.example/%C3%BC"); uri != iri {
		t.Errorf("the URIs gave %s, the IRIs %s", uri, iri)
	}
	if got := subscription.NewID("http://t.example/~x", "http://c.example/?k=b"); got == id {
		t.Error("another callback gave the same ID")
	}
	if id.Version() != 5 {
		t.Errorf("%s is of version %d, want 5", id, id.Version())
	}
}
