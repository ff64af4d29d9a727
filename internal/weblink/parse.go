package weblink

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSyntax: a field value is not a list of links.
var ErrSyntax = errors.New("broken Link header")

// Parse reads the values of all Link header fields of a message. It takes what
// RFC 8288 §3 allows and what is found besides: one field or several, unquoted
// values, several relations in one, any case, odd space, line folds, empty list
// elements. Of several rel parameters of one link only the first counts
// (RFC 8288 §3.3).
//
// Where a value is no longer a list of links, the links before that place are
// kept, the rest of that value is passed over, and the other values are read.
// The error, which is ErrSyntax, says where the first such place was.
func Parse(values []string) ([]Link, error) {
	var links []Link
	var first error
	for i, v := range values {
		p := parser{in: v}
		if n := strings.Count(v, "<"); links == nil && n > 0 {
			links = make([]Link, 0, min(n, linksAhead))
		}
		if err := p.list(&links); err != nil && first == nil {
			first = fmt.Errorf("%w: value %d, byte %d: %w", ErrSyntax, i+1, p.at+1, err)
		}
	}
	return links, first
}

// linksAhead is for how many links memory is taken before they are read.
const linksAhead = 8

// parser reads one field value; at is the byte it has come to.
type parser struct {
	in string
	at int
}

func (p *parser) list(links *[]Link) error {
	for {
		p.skip(" \t\r\n,")
		if p.done() {
			return nil
		}
		l, err := p.link()
		if err != nil {
			return err
		}
		*links = append(*links, l)
	}
}

// link reads `<URI>` and its parameters, up to the comma that ends it.
func (p *parser) link() (Link, error) {
	if p.in[p.at] != '<' {
		return Link{}, errors.New("a link begins with <")
	}
	end := strings.IndexByte(p.in[p.at:], '>')
	if end < 0 {
		return Link{}, errors.New("a link's URI ends with >")
	}
	l := Link{URI: strings.Trim(p.in[p.at+1:p.at+end], spaces)}
	p.at += end + 1
	for hasRel := false; ; {
		p.skip(spaces)
		if p.done() || p.in[p.at] == ',' {
			return l, nil
		}
		if p.in[p.at] != ';' {
			return Link{}, errors.New("a link's URI and parameters are followed by ; or ,")
		}
		p.skip(spaces + ";")
		if p.done() || p.in[p.at] == ',' {
			return l, nil
		}
		param, err := p.param()
		switch {
		case err != nil:
			return Link{}, err
		case param.Name != "rel":
			l.Params = append(l.Params, param)
		case !hasRel:
			l.Rel, hasRel = relations(param.Value), true
		}
	}
}

const spaces = " \t\r\n"

func (p *parser) param() (Param, error) {
	name := p.until(spaces + "=;,")
	if !isToken(name) {
		p.at -= len(name)
		return Param{}, errors.New("a parameter has a name")
	}
	param := Param{Name: strings.ToLower(name)}
	p.skip(spaces)
	if p.done() || p.in[p.at] != '=' {
		return param, nil
	}
	p.at++
	p.skip(spaces)
	if p.done() || p.in[p.at] != '"' {
		param.Value = p.until(spaces + ";,")
		return param, nil
	}
	var err error
	param.Value, err = p.quoted()
	return param, err
}

// quoted reads a quoted string, undoing its escapes (RFC 9110 §5.6.4). A line
// fold in it is the space that it stands for.
func (p *parser) quoted() (string, error) {
	start := p.at
	if n := strings.IndexAny(p.in[start+1:], "\"\\\r\n"); n >= 0 && p.in[start+1+n] == '"' {
		p.at += n + 2
		return p.in[start+1 : start+1+n], nil
	}
	var b strings.Builder
	for p.at++; !p.done(); p.at++ {
		switch c := p.in[p.at]; c {
		case '"':
			p.at++
			return b.String(), nil
		case '\\':
			if p.at+1 < len(p.in) {
				p.at++
			}
			b.WriteByte(p.in[p.at])
		case '\r', '\n':
			if n := b.Len(); n == 0 || b.String()[n-1] != ' ' {
				b.WriteByte(' ')
			}
		default:
			b.WriteByte(c)
		}
	}
	p.at = start
	return "", errors.New("a quoted value ends with a quote")
}

func (p *parser) done() bool { return p.at >= len(p.in) }

func (p *parser) skip(chars string) {
	for !p.done() && strings.IndexByte(chars, p.in[p.at]) >= 0 {
		p.at++
	}
}

// until reads up to the first of the characters, or to the end.
func (p *parser) until(chars string) string {
	rest := p.in[p.at:]
	if end := strings.IndexAny(rest, chars); end >= 0 {
		rest = rest[:end]
	}
	p.at += len(rest)
	return rest
}

// relations splits the value of a rel parameter.
func relations(value string) []string {
	return strings.Fields(strings.ToLower(value))
}
