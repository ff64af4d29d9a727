package weblink

import (
	"net/url"
	"slices"
	"strings"
)

// Link is one web link: to URI, by each of the relations in Rel.
type Link struct {
	// URI is the target as it stood in its source, without surrounding space.
	URI string
	// Rel are the relations, in lower case (RFC 8288 §2.1), in their order.
	Rel []string
	// Params are the other parameters in their order. Their names are in
	// lower case; quoting is undone in their values.
	Params []Param
}

// Param is one parameter of a link. Value is empty where it had none.
type Param struct {
	Name, Value string
}

// Has reports whether the link is of the relation, in any case.
func (l Link) Has(rel string) bool {
	return slices.Contains(l.Rel, strings.ToLower(rel))
}

// Param returns the value of the first parameter of that name, in any case.
func (l Link) Param(name string) (value string, ok bool) {
	name = strings.ToLower(name)
	for _, p := range l.Params {
		if p.Name == name {
			return p.Value, true
		}
	}
	return "", false
}

// anchored reports whether the link says that it starts at another resource than
// the one it came with (RFC 8288 §3.2).
func (l Link) anchored() bool {
	anchor, _ := l.Param("anchor")
	return anchor != ""
}

// Find returns the links of the relation, in their order. Links with an anchor
// are about another resource (RFC 8288 §3.2) and are passed over.
func Find(links []Link, rel string) []Link {
	var found []Link
	for _, l := range links {
		if l.Has(rel) && !l.anchored() {
			found = append(found, l)
		}
	}
	return found
}

// Resolve returns the links with relative URIs made absolute against base, the
// URI of the resource they came with (RFC 8288 §3.1). An absolute URI stays
// byte for byte. A link that cannot be resolved is left out.
func Resolve(base string, links []Link) []Link {
	base, _, _ = strings.Cut(base, "#")
	baseURL, err := url.Parse(base)
	resolved := make([]Link, 0, len(links))
	for _, l := range links {
		ref, refErr := url.Parse(l.URI)
		switch {
		case refErr != nil:
			continue
		case ref.IsAbs():
		case err != nil || !baseURL.IsAbs():
			continue
		default:
			l.URI = baseURL.ResolveReference(ref).String()
		}
		resolved = append(resolved, l)
	}
	return resolved
}

// String returns the link as one value of a Link header: `<URI>; rel="self"`, then the other
// parameters. It is always one valid field value: characters that a URI may not hold are
// percent-encoded, control characters are left out of parameters, and a parameter with an invalid name
// is left out whole.
func (l Link) String() string {
	var b strings.Builder
	b.Grow(len(l.URI) + 24)
	b.WriteByte('<')
	writeURI(&b, l.URI)
	b.WriteByte('>')
	if rels := strings.Fields(printable(strings.Join(l.Rel, " "))); len(rels) > 0 {
		b.WriteString("; rel=")
		writeQuoted(&b, strings.Join(rels, " "))
	}
	for _, p := range l.Params {
		writeParam(&b, p)
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

func writeURI(b *strings.Builder, uri string) {
	for i := 0; i < len(uri); i++ {
		c := uri[i]
		if c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '"' {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
			continue
		}
		b.WriteByte(c)
	}
}

func writeParam(b *strings.Builder, p Param) {
	if !isToken(p.Name) || strings.EqualFold(p.Name, "rel") {
		return
	}
	// An extended value is never quoted (RFC 8187 §3.2.1).
	if extended := strings.HasSuffix(p.Name, "*"); extended {
		if isExtValue(p.Value) {
			b.WriteString("; " + p.Name + "=" + p.Value)
		}
		return
	}
	b.WriteString("; " + p.Name)
	if value := printable(p.Value); value != "" {
		b.WriteByte('=')
		writeQuoted(b, value)
	}
}

// writeQuoted writes a quoted string of what is printable (RFC 9110 §5.6.4).
func writeQuoted(b *strings.Builder, printable string) {
	b.WriteByte('"')
	for i := 0; i < len(printable); i++ {
		if c := printable[i]; c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(printable[i])
	}
	b.WriteByte('"')
}

// printable leaves out the control characters, byte by byte.
func printable(s string) string {
	control := func(c byte) bool { return c < ' ' || c == 0x7f }
	return string(slices.DeleteFunc([]byte(s), control))
}

func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if !tokenChar(s[i]) {
			return false
		}
	}
	return s != ""
}

// isExtValue reports whether s may stand unquoted after the = of an extended
// parameter (RFC 8187 §3.2.1).
func isExtValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !tokenChar(c) && c != '%' {
			return false
		}
	}
	return s != ""
}

// tokenChar is tchar of RFC 9110 §5.6.2.
func tokenChar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
