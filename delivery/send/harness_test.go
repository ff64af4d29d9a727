package send_test

import (
	"errors"
	"testing"
)

// topicURL and callback are a topic and a callback of no host that there is.
const (
	topicURL = "https://example.com/change/"
	callback = "https://one.example/hook"
)

var errOdd = errors.New("something odd")

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
