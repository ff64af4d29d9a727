package urlpath_test

import (
	"net/url"
	"testing"

	"carillon/internal/urlpath"
)

func TestEscape(t *testing.T) {
	for path, want := range map[string]string{
		"":                        "",
		"a/b.txt":                 "a/b.txt",
		"host+8080/my file":       "host+8080/my%20file",
		"a/b%3Fq=1;x,y":           "a/b%253Fq=1%3Bx%2Cy",
		"ä/#/%~dir":               "%C3%A4/%23/%25~dir",
		"no utf-8 \xff\x00/&'(*)": "no%20utf-8%20%FF%00/&%27%28%2A%29",
	} {
		got := urlpath.Escape(path)
		if got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
		if back, err := url.PathUnescape(got); err != nil || back != path {
			t.Errorf("%q comes back as %q, %v", path, back, err)
		}
	}
}
