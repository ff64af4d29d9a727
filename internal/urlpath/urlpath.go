// Package urlpath writes the path of a file below a directory as the path of a URI below a base. A
// notifier serves its watched directories at such addresses, and web servers find the
// files of a mirror by them.
//
// What it guarantees: two paths have two addresses, and decoding an address once gives the path.
// What it does not: it judges no path; dot segments stay what they are.
package urlpath

import (
	"net/url"
	"strings"
)

// Escape encodes each name of a path with slashes.
func Escape(rel string) string {
	var b strings.Builder
	for i, name := range strings.Split(rel, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(url.PathEscape(name))
	}
	return b.String()
}
