package digests_test

import (
	"fmt"
	"strings"
	"testing"

	"carillon/internal/digests"
)

// Parse looks at the first digests only: a document may have any number of them.
func TestParseBounds(t *testing.T) {
	md5 := func(n int) string { return fmt.Sprintf("md5:%032x", n) }
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(md5(i) + " ")
		}
		return b.String()
	}
	const max, text = 32, 4096
	for name, tc := range map[string]struct {
		told   string
		known  int
		others bool
	}{
		"none":                {"", 0, false},
		"as many as count":    {many(max), max, false},
		"one more":            {many(max + 1), max, true},
		"a thousand":          {many(1000), max, true},
		"the same ones":       {strings.Repeat(md5(0)+" ", max), 1, false},
		"unknown ones first":  {strings.Repeat("x ", max) + md5(0), 0, true},
		"to the last byte":    {strings.Repeat(" ", text-len(md5(0))) + md5(0), 1, false},
		"space after the end": {strings.Repeat(" ", text-len(md5(0))) + md5(0) + " ", 1, true},
		"over the end":        {md5(1) + strings.Repeat(" ", text-2*len(md5(0))+1) + md5(0), 1, true},
		"one long text":       {strings.Repeat("a", 2*text), 0, true},
		"cut in the middle":   {strings.Repeat(" ", text-len(md5(0))) + md5(0) + "a", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			known, others := digests.Parse(tc.told)
			if len(known) != tc.known || others != tc.others {
				t.Errorf("%d known, others %v; want %d, %v", len(known), others, tc.known, tc.others)
			}
		})
	}
}
