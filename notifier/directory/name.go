package directory

import (
	"net/url"
	"path/filepath"
	"strings"

	"carillon/internal/urlpath"
)

// A file is called by its path below the directory, with slashes: "maps/1905.tiff"; the
// directory itself is "".

// names are the ways from the files of a directory to their URIs and back.
type names struct{ base, dir string }

// hidden reports whether a name is of what is no resource.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// hiddenPath reports whether a name of the path is hidden.
func hiddenPath(rel string) bool { return hidden(rel) || strings.Contains(rel, "/.") }

// locOf is the URI of a file.
func (n names) locOf(rel string) string { return n.base + urlpath.Escape(rel) }

// relOf is the file that has the URI; false where none can have exactly that one.
func (n names) relOf(loc string) (string, bool) {
	escaped, ok := strings.CutPrefix(loc, n.base)
	if !ok {
		return "", false
	}
	rel, ok := unescapePath(escaped)
	return rel, ok && urlpath.Escape(rel) == escaped
}

// unescapePath reads the path of a file from a URI, however that is encoded. It takes no
// name that is hidden, leads elsewhere (., ..) or that no file here can have.
func unescapePath(escaped string) (string, bool) {
	names := strings.Split(escaped, "/")
	for i, name := range names {
		name, err := url.PathUnescape(name)
		if err != nil || name == "" || hidden(name) || strings.ContainsAny(name, "/\x00") || !filepath.IsLocal(name) ||
			strings.ContainsRune(name, filepath.Separator) {
			return "", false
		}
		names[i] = name
	}
	return strings.Join(names, "/"), true
}

// pathOf is where a file is.
func (n names) pathOf(rel string) string {
	return filepath.Join(n.dir, filepath.FromSlash(rel))
}

// relPath is the file at a path that pathOf made, or one below it.
func (n names) relPath(path string) (string, bool) {
	rel, err := filepath.Rel(n.dir, path)
	if err != nil || rel != "." && !filepath.IsLocal(rel) {
		return "", false
	}
	if rel == "." {
		return "", true
	}
	return filepath.ToSlash(rel), true
}

// join is a name below a directory.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
