package payload

import (
	"bytes"
	"strings"
)

// The namespaces that are bound without a declaration.
const (
	xmlNamespace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsNamespace = "http://www.w3.org/2000/xmlns/"
)

// binding is a namespace declaration that is in force.
type binding struct{ prefix, uri string }

// rawAttr is an attribute as the tag has it.
type rawAttr struct{ prefix, local, value []byte }

// markup reads what starts with "<". It returns kind 0 for what is passed over.
func (s *scanner) markup() (tokenKind, error) {
	if err := s.need(2); err != nil {
		return 0, s.inToken(err)
	}
	switch s.buf[s.pos+1] {
	case '/':
		return s.endTag()
	case '?':
		return 0, s.instruction()
	case '!':
		return s.declaration()
	}
	return s.startTag()
}

// declaration reads a comment or CDATA and refuses a document type declaration.
func (s *scanner) declaration() (tokenKind, error) {
	switch {
	case s.begins("<!--"):
		return 0, s.comment()
	case s.begins("<![CDATA["):
		return s.cdata()
	case s.begins("<!DOCTYPE"):
		return 0, s.fail(ErrDoctype, "remove <!DOCTYPE")
	}
	return 0, s.syntax("<! begins neither a comment nor CDATA")
}

func (s *scanner) comment() error {
	const open, end = len("<!--"), "-->"
	n, err := s.index(end, open)
	if err != nil {
		return err
	}
	body := s.buf[s.pos+open : s.pos+n]
	if err := s.checkChars(body); err != nil {
		return err
	}
	if bytes.Contains(body, []byte("--")) || bytes.HasSuffix(body, []byte{'-'}) {
		return s.syntax("-- inside a comment")
	}
	s.consume(n + len(end))
	return nil
}

func (s *scanner) cdata() (tokenKind, error) {
	const open, end = len("<![CDATA["), "]]>"
	if len(s.frames) == 0 {
		return 0, s.syntax("CDATA outside the root element")
	}
	n, err := s.index(end, open)
	if err != nil {
		return 0, err
	}
	body := s.buf[s.pos+open : s.pos+n]
	if err := s.checkChars(body); err != nil {
		return 0, err
	}
	s.scratch = s.scratch[:0]
	s.text = s.lineEnds(body)
	s.consume(n + len(end))
	return tokenText, nil
}

// instruction passes over a processing instruction; the XML declaration, which
// looks like one, is judged.
func (s *scanner) instruction() error {
	const open, end = len("<?"), "?>"
	n, err := s.index(end, open)
	if err != nil {
		return err
	}
	body := s.buf[s.pos+open : s.pos+n]
	if err := s.checkChars(body); err != nil {
		return err
	}
	target, rest := cutName(body)
	switch {
	case len(target) == 0 || bytes.IndexByte(target, ':') >= 0:
		return s.syntax("a processing instruction without a proper name")
	case len(rest) > 0 && !isSpace(rest[0]):
		return s.syntax("no space after the name of a processing instruction")
	case string(target) == "xml" && s.prolog:
		err = s.xmlDeclaration(rest)
	case strings.EqualFold(string(target), "xml"):
		err = s.syntax("an XML declaration that is not at the very start")
	}
	if err != nil {
		return err
	}
	s.consume(n + len(end))
	return nil
}

// xmlDeclaration judges what follows "<?xml" (XML 1.0 §2.8).
func (s *scanner) xmlDeclaration(rest []byte) error {
	if err := s.readAttrs(rest); err != nil {
		return err
	}
	last := -1
	for _, a := range s.rawAttrs {
		place := -1
		switch string(a.local) {
		case "version":
			place = 0
			if !strings.HasPrefix(string(a.value), "1.") {
				return s.syntax("the XML version is not 1.0")
			}
		case "encoding":
			place = 1
			if !strings.EqualFold(string(a.value), "UTF-8") &&
				!strings.EqualFold(string(a.value), "US-ASCII") {
				return s.fail(ErrEncoding, "the XML declaration names another encoding")
			}
		case "standalone":
			place = 2
		}
		if len(a.prefix) > 0 || place <= last || last < 0 && place != 0 {
			return s.syntax("a broken XML declaration")
		}
		last = place
	}
	if last < 0 {
		return s.syntax("the XML declaration has no version")
	}
	return nil
}

func (s *scanner) endTag() (tokenKind, error) {
	const open = len("</")
	n, err := s.index(">", open)
	if err != nil {
		return 0, err
	}
	name, rest := cutName(s.buf[s.pos+open : s.pos+n])
	if len(trimSpace(rest)) > 0 || len(name) == 0 {
		return 0, s.syntax("a broken end tag")
	}
	if len(s.frames) == 0 {
		return 0, s.syntax("an end tag without a start tag")
	}
	if !bytes.Equal(name, s.names[s.frames[len(s.frames)-1].name:]) {
		return 0, s.syntax("an end tag that does not match its start tag")
	}
	s.consume(n + 1)
	s.popNext = true
	return tokenEnd, nil
}

func (s *scanner) startTag() (tokenKind, error) {
	if s.rootDone {
		return 0, s.syntax("a second root element")
	}
	n, err := s.tagEnd()
	if err != nil {
		return 0, err
	}
	tag := s.buf[s.pos+1 : s.pos+n]
	if err := s.checkChars(tag); err != nil {
		return 0, err
	}
	empty := len(tag) > 0 && tag[len(tag)-1] == '/'
	if empty {
		tag = tag[:len(tag)-1]
	}
	name, rest := cutName(tag)
	prefix, local, ok := splitName(name)
	if !ok {
		return 0, s.syntax("a tag without a proper name")
	}
	if len(s.frames) >= s.lim.Depth {
		return 0, s.fail(ErrTooDeep, "see the limit for nesting")
	}
	if err := s.readAttrs(rest); err != nil {
		return 0, err
	}
	f := frame{name: len(s.names), bindings: len(s.bindings)}
	f.local = f.name + len(name) - len(local)
	s.names = append(s.names, name...)
	s.frames = append(s.frames, f)
	if err := s.resolve(prefix); err != nil {
		return 0, err
	}
	s.consume(n + 1)
	s.tag = n + 1
	s.empty, s.prolog = empty, false
	return tokenStart, nil
}

// tagEnd returns where the ">" of the start tag at pos stands, counted from pos.
func (s *scanner) tagEnd() (int, error) {
	if n := bytes.IndexByte(s.buf[s.pos:], '>'); n > 0 && plainTag(s.buf[s.pos+1:s.pos+n]) {
		return s.within(n)
	}
	var quote byte
	for i := 1; ; i++ {
		if s.pos+i >= len(s.buf) {
			if err := s.more(); err != nil {
				return 0, s.inToken(err)
			}
		}
		c := s.buf[s.pos+i]
		switch {
		case quote != 0:
			// Values are most of a tag: jump to their end, if it is here.
			j := bytes.IndexByte(s.buf[s.pos+i:], quote)
			if j < 0 {
				i = len(s.buf) - s.pos - 1
				continue
			}
			i += j
			quote = 0
		case c == '>':
			return s.within(i)
		case c == '"' || c == '\'':
			quote = c
		case c == '<':
			return 0, s.syntax("< inside a tag")
		}
	}
}

// plainTag reports whether a ">" behind tag is outside of values: all quotes are double ones, and each
// has its other.
func plainTag(tag []byte) bool {
	return bytes.Count(tag, []byte{'"'})%2 == 0 && bytes.IndexByte(tag, '\'') < 0 &&
		bytes.IndexByte(tag, '<') < 0
}

// readAttrs takes the attributes of a tag apart into rawAttrs.
func (s *scanner) readAttrs(b []byte) error {
	s.rawAttrs, s.scratch = s.rawAttrs[:0], s.scratch[:0]
	for {
		rest := trimSpace(b)
		if len(rest) == 0 {
			return nil
		}
		if len(rest) == len(b) {
			return s.syntax("no space before an attribute")
		}
		name, rest := cutName(rest)
		prefix, local, ok := splitName(name)
		if !ok {
			return s.syntax("an attribute without a proper name")
		}
		value, after, ok := cutValue(rest)
		if !ok {
			return s.syntax("an attribute without a quoted value")
		}
		if len(s.rawAttrs) == maxAttrs {
			return s.fail(ErrTooLarge, "too many attributes")
		}
		value, err := s.attrValue(value)
		if err != nil {
			return err
		}
		s.rawAttrs = append(s.rawAttrs, rawAttr{prefix, local, value})
		b = after
	}
}

// cutValue cuts `= "value"` from the start of b.
func cutValue(b []byte) (value, after []byte, ok bool) {
	b = trimSpace(b)
	if len(b) == 0 || b[0] != '=' {
		return nil, nil, false
	}
	b = trimSpace(b[1:])
	if len(b) == 0 || b[0] != '"' && b[0] != '\'' {
		return nil, nil, false
	}
	n := bytes.IndexByte(b[1:], b[0])
	if n < 0 {
		return nil, nil, false
	}
	return b[1 : 1+n], b[2+n:], true
}

// resolve applies the namespace declarations among rawAttrs, and gives the
// element on top of the stack and its attributes their namespaces.
func (s *scanner) resolve(prefix []byte) error {
	top := &s.frames[len(s.frames)-1]
	bound := false
	for i := range s.rawAttrs {
		if a := &s.rawAttrs[i]; isBinding(a) {
			bound = true
			if err := s.bind(a, s.bindings[top.bindings:]); err != nil {
				return err
			}
		}
	}
	var ok bool
	if top.space, ok = s.lookup(prefix); !ok {
		return s.syntax("an element with an undeclared prefix")
	}
	s.attrs = s.attrs[:0]
	for i := range s.rawAttrs {
		a := &s.rawAttrs[i]
		if bound && isBinding(a) {
			continue
		}
		space := ""
		if len(a.prefix) > 0 {
			if space, ok = s.lookup(a.prefix); !ok {
				return s.syntax("an attribute with an undeclared prefix")
			}
		}
		for j := range s.attrs {
			if b := &s.attrs[j]; len(b.local) == len(a.local) && b.space == space &&
				bytes.Equal(b.local, a.local) {
				return s.syntax("an attribute twice in one tag")
			}
		}
		s.attrs = append(s.attrs, attr{space: space, local: a.local, value: a.value})
	}
	return nil
}

func isBinding(a *rawAttr) bool {
	return len(a.prefix) == 0 && string(a.local) == "xmlns" || string(a.prefix) == "xmlns"
}

// bind puts a namespace declaration in force (Namespaces in XML 1.0 §3). here are
// the declarations of the same tag.
func (s *scanner) bind(a *rawAttr, here []binding) error {
	prefix := a.local
	if len(a.prefix) == 0 {
		prefix = nil
	}
	for _, b := range here {
		if b.prefix == string(prefix) {
			return s.syntax("a namespace prefix declared twice in one tag")
		}
	}
	uri := string(a.value)
	switch {
	case string(prefix) == "xmlns", uri == xmlnsNamespace,
		(string(prefix) == "xml") != (uri == xmlNamespace),
		len(prefix) > 0 && uri == "":
		return s.syntax("a namespace declaration that is not allowed")
	}
	if len(s.bindings) == maxAttrs {
		return s.fail(ErrTooLarge, "too many namespace declarations")
	}
	s.bindings = append(s.bindings, binding{string(prefix), uri})
	return nil
}

func (s *scanner) lookup(prefix []byte) (uri string, ok bool) {
	for i := len(s.bindings) - 1; i >= 0; i-- {
		if s.bindings[i].prefix == string(prefix) {
			return s.bindings[i].uri, true
		}
	}
	if string(prefix) == "xml" {
		return xmlNamespace, true
	}
	return "", len(prefix) == 0
}
