package dots_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"carillon/internal/dots"
)

func TestHidden(t *testing.T) {
	for _, path := range []string{
		"/x/../y", "/x/.", "..", ".", "/x/%2e%2e/y", "/x/%2E./y", "/x/..%2fy", `/x/..\y`, "/x/..%5cy",
		"/x/..;a=b/y", "/x/%2e%2e%3b/y", "/x/..%00/y", "/x/%2e%2e%00", "/x/..%3fa/y", "/x/..%23a/y",
		"/x/%252e%252e/y", "/x/%25252e./y", "/x/..%252fy", "/x/%25%32%65%2e/y", "/x/%%32e./y", "/x/%2e%2e/%zz",
		"/x/%2525252525252525", // encoded too many times over
	} {
		if !dots.Hidden(path) {
			t.Errorf("%q has no dot segment", path)
		}
	}
	for _, path := range []string{
		"", "/", "/x/y", "/x/...", "/x/..y/.hidden", "/x/y..", "/x/a.b/v1.0", "/x//y", "/x/a;b/c", "/x/100%", "/x/%zz",
		"/x/caf%C3%A9", "/x/%20", "/x/a%3Fb", "/x/50%2525",
	} {
		if dots.Hidden(path) {
			t.Errorf("%q has a dot segment", path)
		}
	}
}

// A path is taken for one without dot segments only where no spelling of it has one.
func FuzzHidden(f *testing.F) {
	f.Add("/x/%252e%252e/y")
	f.Add("/x/a%3bb")
	f.Fuzz(func(t *testing.T, path string) {
		if dots.Hidden(path) {
			return
		}
		for spelling, more := path, true; more; {
			for segment := range strings.SplitSeq(strings.ReplaceAll(spelling, `\`, "/"), "/") {
				if segment == "." || segment == ".." {
					t.Fatalf("%q is %q", path, spelling)
				}
			}
			decoded, err := url.PathUnescape(spelling)
			more = err == nil && decoded != spelling
			spelling = decoded
		}
	})
}

func ExampleHidden() {
	fmt.Println(dots.Hidden("/x/y"), dots.Hidden("/x/%252e%252e/y"))
	// Output: false true
}
