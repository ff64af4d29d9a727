package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"carillon/internal/dots"
	"carillon/internal/fetch"
)

// Limits of names. File systems take 255 bytes for a name; Linux takes 4,096 for a path.
const (
	maxName = 200
	maxPath = 1500
	maxDeep = 100
	// keptOfName is how much of a name that is too long is kept, and maxExt how long its
	// extension may be.
	keptOfName = 140
	maxExt     = 16
	// maxLoc is how long a loc may be that is asked for; servers take 8,000 bytes (RFC 9110 §4.1).
	maxLoc = 8192
)

// mark begins what is put into names so that they cannot be those of others.
const mark = "%~"

// dirMark ends the name of a directory where a file has the name.
const dirMark = mark + "dir"

// indexName is the name of what ends in a slash.
const indexName = "index.html"

// ErrLoc: a loc cannot be fetched.
var ErrLoc = errors.New("not an absolute http or https URI that can be asked for")

// parseLoc takes a loc apart.
func parseLoc(loc string) (*url.URL, error) {
	u, err := url.Parse(loc)
	switch {
	case len(loc) > maxLoc:
		return nil, fmt.Errorf("%w: it has %d characters", ErrLoc, len(loc))
	case err != nil:
		return nil, ErrLoc // the error would tell the loc once more
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return nil, ErrLoc
	case u.User != nil:
		return nil, fmt.Errorf("%w: it has a user name", ErrLoc)
	}
	return u, nil
}

// naturalPath is where the copy would be if no other was in its way, as names below the directory.
func naturalPath(u *url.URL) []string {
	host, port, _ := net.SplitHostPort(fetch.Authority(u)) // which has both
	if port != "" {
		host += "+" + port
	}
	names := []string{shortened(escape(host))}
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	last := len(parts) - 1
	for i, part := range parts {
		name := decoded(part)
		if i == last {
			name = lastName(name, u)
		}
		names = append(names, shortened(escape(name)))
	}
	if len(names) > maxDeep || len(path.Join(names...)) > maxPath {
		sum := sha256.Sum256([]byte(strings.Join(names, "/")))
		digest := hex.EncodeToString(sum[:])
		return []string{names[0], mark + "long", digest[:2], digest}
	}
	return names
}

// lastName has the query and the fragment with it.
func lastName(name string, u *url.URL) string {
	if name == "" && u.RawQuery == "" && u.Fragment == "" {
		return indexName
	}
	if u.RawQuery != "" || u.ForceQuery {
		name += "?" + decoded(u.RawQuery)
	}
	if u.Fragment != "" {
		name += "#" + u.Fragment
	}
	return name
}

func decoded(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// escape makes a name of what a stranger calls something: none that is special to a file
// system, and never an empty one.
func escape(name string) string {
	if name == "" {
		return mark
	}
	var b strings.Builder
	b.Grow(len(name))
	edge := len(strings.TrimRight(name, ". "))
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if plain(r, size) && (r != '.' && r != ' ' || 0 < i && i < edge) {
			b.WriteString(name[i : i+size])
		} else {
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		i += size
	}
	if escaped := b.String(); !isDevice(escaped) {
		return escaped
	}
	return fmt.Sprintf("%%%02X%s", name[0], b.String()[1:])
}

// plain reports what may stand in a name as it is.
func plain(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size <= 1, strings.ContainsRune(`%/\<>:"|?*`, r):
		return false
	case r < utf8.RuneSelf:
		return r >= ' ' && r < 0x7f
	}
	// Some file systems ignore invisible characters (Default_Ignorable) when they compare names.
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.In(
		r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
	)
}

// devices are the names that Windows takes for devices, whatever follows a dot.
var devices = []string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}

func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	if slices.Contains(devices, base) {
		return true
	}
	numbered := strings.TrimPrefix(base, "COM")
	if numbered == base {
		numbered = strings.TrimPrefix(base, "LPT")
	}
	return numbered != base && utf8.RuneCountInString(numbered) == 1 && strings.Contains("0123456789¹²³", numbered)
}

// shortened is the name, or what a file system takes of it with a digest of the whole.
func shortened(name string) string {
	if len(name) <= maxName {
		return name
	}
	return distinct(name, name)
}

// distinct puts a digest of what into a name, before its extension.
func distinct(name, what string) string {
	sum := sha256.Sum256([]byte(what))
	ext := path.Ext(name)
	if len(ext) > maxExt || strings.Contains(ext, "%") || ext == name {
		ext = ""
	}
	stem := strings.TrimSuffix(name, ext)
	if len(stem) > keptOfName {
		end := keptOfName
		for !utf8.RuneStart(stem[end]) {
			end--
		}
		if i := strings.LastIndexByte(stem[:end], '%'); i >= 0 && end-i < 3 {
			end = i // not through an encoded byte
		}
		stem = stem[:end]
	}
	return stem + mark + hex.EncodeToString(sum[:8]) + ext
}

// claimOf is what a path is known by: two paths that some file system takes for one have
// the same. It is Unicode's canonical caseless matching (D145: NFD before and after the folding), in
// NFC, which distinguishes the same paths as NFD does and is shorter.
func claimOf(path string) string {
	if isASCII(path) {
		return strings.ToLower(path) // the same
	}
	return norm.NFC.String(strings.Map(cherokee, cases.Fold().String(norm.NFD.String(path))))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// cherokee folds what package cases exchanges: Cherokee, which Unicode folds to capitals, as those were there first.
func cherokee(r rune) rune {
	const capitals, small, smallEnd, late, lateEnd, lateBy = 0x13a0, 0xab70, 0xabbf, 0x13f8, 0x13fd, 8
	switch {
	case small <= r && r <= smallEnd:
		return r - small + capitals
	case late <= r && r <= lateEnd:
		return r - lateBy
	}
	return r
}

// base is a place below which resources are mirrored.
type base struct {
	secure bool // https only
	host   string
	path   string // clean, without a slash at its end
}

// parseBase reads one that an operator gave.
func parseBase(raw string) (base, error) {
	u, err := parseLoc(raw)
	if err != nil || strings.ContainsAny(raw, " ") || u.RawQuery != "" || u.Fragment != "" {
		return base{}, fmt.Errorf(
			"base: %.200q is not an absolute http or https URL, without user name, query and fragment", raw,
		)
	}
	return base{u.Scheme == "https", fetch.Authority(u), strings.TrimSuffix(plainPath(u), "/")}, nil
}

// has reports whether the base has a resource: of the same host and port (https for http is
// good, the other way round is not), and below its path when dots are resolved, in whatever
// encoding.
func (b base) has(u *url.URL) bool {
	if b.host != fetch.Authority(u) || b.secure && u.Scheme != "https" {
		return false
	}
	at := plainPath(u)
	rest, below := strings.CutPrefix(at, b.path)
	return below && (rest == "" || rest[0] == '/') && (b.path == "" || !dots.Hidden(at))
}

// plainPath is the path decoded, without dot segments; a backslash counts as a slash, as
// it does to some servers.
func plainPath(u *url.URL) string {
	return path.Clean("/" + strings.ReplaceAll(u.Path, `\`, "/"))
}
