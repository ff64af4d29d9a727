package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	tokenRead    = regexp.MustCompile(`--(?:hub-token|admin-token)-file (/\S+)`)
	tokenWritten = regexp.MustCompile(`(?:\btee|--token-file|/dev/null) (/\S+)`)
)

// TestTokensBeforeTheirUse checks that a page makes a token's file before a program reads it,
// and makes it private before it writes the secret.
func TestTokensBeforeTheirUse(t *testing.T) {
	checked := 0
	for _, page := range []string{"docs/own-source.md", "docs/third-party-hub.md"} {
		_, blocks := readPage(t, page)
		made := map[string]bool{}
		for _, b := range blocks {
			if b.lang != "sh" {
				continue
			}
			for _, line := range commandsOf("", []block{b}) {
				for _, m := range tokenRead.FindAllStringSubmatch(line, -1) {
					if checked++; !made[m[1]] {
						t.Errorf("%s: %q: nothing has made %s before", page, line, m[1])
					}
				}
				for _, m := range tokenWritten.FindAllStringSubmatch(line, -1) {
					if strings.Contains(line, "| sudo tee ") && !made[m[1]] {
						t.Errorf("%s: %q: %s would be readable to all", page, line, m[1])
					}
					made[m[1]] = true
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no page reads a token's file")
	}
}
