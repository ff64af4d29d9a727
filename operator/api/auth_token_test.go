package api_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"carillon/operator/api"
)

// Two hubs that begin at once have one token.
func TestOneTokenIsMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	tokens := make(chan string)
	for range 4 {
		go func() {
			token, err := api.FindToken("", file, slog.New(slog.DiscardHandler))
			if err != nil {
				tokens <- err.Error()
				return
			}
			tokens <- token.Now()
		}()
	}
	first := <-tokens
	for range 3 {
		if other := <-tokens; other != first || len(other) != 64 {
			t.Errorf("tokens %q and %q", first, other)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the token there is %q (%v)", left, err)
	}
}
