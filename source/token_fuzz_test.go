package source_test

import (
	"errors"
	"strings"
	"testing"

	"carillon/source"
)

// FuzzBearerToken: of whatever Authorization says, a token is a piece of it, of bounded
// length and without anything that means something elsewhere; and it is read again as the
// same. No error shows any of it.
func FuzzBearerToken(f *testing.F) {
	f.Add("Bearer carillon_c2VjcmV0", "")
	f.Add("bearer  a=", "Basic YTpi")
	f.Fuzz(func(t *testing.T, first, second string) {
		values := []string{first}
		if second != "" {
			values = append(values, second)
		}
		token, err := source.BearerToken(values)
		if err != nil {
			if !errors.Is(err, source.ErrNoToken) && !errors.Is(err, source.ErrMalformed) || token != "" {
				t.Errorf("%q: token %q, error %v", values, string(token), err)
			}
			if len(first) > 12 && strings.Contains(err.Error(), first) {
				t.Errorf("%q is in the error %v", first, err)
			}
			return
		}
		text := string(token)
		if len(values) != 1 || text == "" || len(text) > 512 || strings.ContainsAny(text, " \t,;\"\\\r\n\x00") || !strings.Contains(first, text) {
			t.Errorf("%q: token %q", values, text)
		}
		if again, err := source.BearerToken([]string{"Bearer " + text}); err != nil || again != token {
			t.Errorf("%q is read again as %q, error %v", text, string(again), err)
		}
	})
}
