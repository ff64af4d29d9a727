package retryafter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/internal/retryafter"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 5 ":                            5 * time.Second,
		"-5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"99999999999999999999999":        (1 << 32) * time.Second,
		"Sun, 01 Mar 2026 12:01:00 GMT":  time.Minute,
		"Sunday, 01-Mar-26 12:01:00 GMT": time.Minute,
		"Sun Mar  1 12:01:00 2026":       time.Minute,
		"Sun, 01 Mar 2026 11:59:00 GMT":  0,
	} {
		if got := retryafter.Parse(value, now); got != want {
			t.Errorf("Parse(%q) = %s, want %s", value, got, want)
		}
	}
}

// FuzzParse: a wait is never negative and has a bound, and one in seconds does not
// depend on the clock.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "120", "-1", "Sun, 01 Mar 2026 12:01:00 GMT", "18446744073709551616"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		now := time.Unix(1_700_000_000, 0)
		got := retryafter.Parse(value, now)
		if got < 0 {
			t.Errorf("Parse(%q) = %s: a wait is never negative", value, got)
		}
		if _, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err != nil {
			return
		}
		if later := retryafter.Parse(value, now.Add(time.Hour)); later != got || got > (1<<32)*time.Second {
			t.Errorf("Parse(%q) = %s, and %s an hour later", value, got, later)
		}
	})
}

func ExampleParse() {
	fmt.Println(retryafter.Parse("120", time.Now()))
	// Output: 2m0s
}
