package egress_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"carillon/internal/egress"
)

func TestUnquoted(t *testing.T) {
	for text, want := range map[string]string{
		"connection refused":                            "connection refused",
		`malformed HTTP response "the \"secret\" path"`: "malformed HTTP response …",
		strings.Repeat("long", 100):                     strings.Repeat("long", 75) + "…",
		strings.Repeat("é", 200):                        strings.Repeat("é", 150) + "…",
	} {
		err := egress.Unquoted(fmt.Errorf("%s%w", text, silent{io.EOF}))
		if err.Error() != want || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := egress.Unquoted(nil); err != nil {
		t.Errorf("nothing became %v", err)
	}
}

// silent is an error without a text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
