package payload

import (
	"bytes"
	"errors"
	"io"
)

// tokenKind is the kind of a token.
type tokenKind uint8

// The kinds of tokens. An empty element is a start and an end; CDATA is text;
// comments and processing instructions are passed over.
const (
	tokenStart tokenKind = iota + 1
	tokenEnd
	tokenText
)

// maxAttrs bounds the attributes of one tag, and the namespace declarations in
// force: every attribute is compared with every other and with the declarations.
const maxAttrs = 64

// firstBuffer is how much is read at once, until a token needs more.
const firstBuffer = 64 << 10

// minBuffer is how large the buffer is at least.
const minBuffer = 512

// utf8Mark is the byte order mark of UTF-8.
var utf8Mark = []byte("\xef\xbb\xbf")

// attr is one attribute; namespace declarations are not among them.
type attr struct {
	space string // the namespace; empty for an attribute without a prefix
	local []byte
	value []byte
}

// scanner reads XML 1.0 with namespaces, token by token, from untrusted input. The results of token,
// and of its other methods and fields, are valid until token is called again. It is for one goroutine.
//
// A document that was read to io.EOF is well-formed (one root, matching tags, declared prefixes, no
// attribute twice, only characters that XML 1.0 allows) and was within the Limits. Nothing is expanded
// but character references and the five predefined entities. Names are checked in their ASCII part
// only.
//
// It stands in for encoding/xml because a hub reads every notification that is published to it:
// without an allocation for each token it is several times as fast. It also refuses documents that
// encoding/xml lets pass (two roots, attributes twice, undeclared prefixes).
type scanner struct {
	input
	tag int // length of the start tag read last, up to pos

	begun    bool // the byte order mark was looked for
	prolog   bool // nothing was consumed yet: an XML declaration may come
	rootDone bool
	popNext  bool // the end tag on top of the stack has been given out
	empty    bool // the start tag on top was an empty element: its end comes next

	names    []byte // qualified names of the open elements, end to end
	frames   []frame
	bindings []binding
	attrs    []attr // of the start tag read last
	rawAttrs []rawAttr
	text     []byte // of the text read last, decoded
	scratch  []byte // decoded text and values of the current token
	err      error
}

// frame is an open element.
type frame struct {
	space    string
	name     int // where its qualified name starts in names
	local    int // where its local part starts in names
	bindings int // how many bindings there were before it
}

// newScanner returns a scanner of what r gives.
func newScanner(r io.Reader, lim Limits) *scanner {
	size := firstBuffer
	if known, ok := r.(interface{ Len() int }); ok {
		size = min(size, max(minBuffer, known.Len()+1)) // one more, so that the end is seen without more room
	}
	return &scanner{
		input: input{src: r, lim: lim, line: 1, buf: make([]byte, 0, size)}, prolog: true,
	}
}

// newBytesScanner returns a scanner of doc, which it does not copy and does not change.
func newBytesScanner(doc []byte, lim Limits) *scanner {
	if int64(len(doc)) > lim.Bytes {
		return newScanner(bytes.NewReader(doc), lim) // it will stop at the limit
	}
	return &scanner{input: input{lim: lim, line: 1, buf: doc, eof: true}, prolog: true}
}

// depth is the number of open elements. At a start and an end tag the element
// itself counts, so that the root has 1.
func (s *scanner) depth() int { return len(s.frames) }

// space is the namespace of the innermost open element: at a start and an end tag
// that of the tag.
func (s *scanner) space() string { return s.frames[len(s.frames)-1].space }

// local is the local name of the same element.
func (s *scanner) local() []byte { return s.names[s.frames[len(s.frames)-1].local:] }

// token reads the next token. It returns io.EOF when the document is complete
// and nothing but white space, comments and processing instructions follow.
// After an error it returns the same error.
func (s *scanner) token() (tokenKind, error) {
	if s.err != nil {
		return 0, s.err
	}
	k, err := s.next()
	if err != nil {
		s.err = err
	}
	return k, err
}

func (s *scanner) next() (tokenKind, error) {
	if s.popNext {
		s.pop()
	}
	if s.empty {
		s.empty, s.popNext = false, true
		return tokenEnd, nil
	}
	if !s.begun {
		if err := s.begin(); err != nil {
			return 0, err
		}
	}
	for {
		if s.pos == len(s.buf) {
			if err := s.more(); err != nil {
				return 0, s.atEnd(err)
			}
		}
		var k tokenKind
		var err error
		switch {
		case s.buf[s.pos] == '<':
			k, err = s.markup()
		case len(s.frames) == 0:
			err = s.outerSpace()
		default:
			k, err = s.charData()
		}
		if k != 0 || err != nil {
			return k, err
		}
		s.prolog = false
	}
}

func (s *scanner) pop() {
	s.popNext = false
	f := s.frames[len(s.frames)-1]
	s.names = s.names[:f.name]
	s.bindings = s.bindings[:f.bindings]
	s.frames = s.frames[:len(s.frames)-1]
	s.rootDone = len(s.frames) == 0
}

// atEnd says what the end of the input, or trouble in reading on, means between
// two tokens.
func (s *scanner) atEnd(err error) error {
	switch {
	case !errors.Is(err, errEnd):
		return err
	case len(s.frames) > 0:
		return s.syntax("the document ends inside an element")
	case !s.rootDone:
		return s.syntax("there is no element")
	}
	return io.EOF
}

// begin looks at the first bytes: a byte order mark of UTF-8 is passed over, the
// signs of UTF-16 are refused by name.
func (s *scanner) begin() error {
	s.begun = true
	if err := s.need(3); err != nil && !errors.Is(err, errEnd) {
		return err
	}
	b := s.buf[s.pos:]
	switch {
	case bytes.HasPrefix(b, utf8Mark):
		s.pos += 3
	case bytes.HasPrefix(b, []byte("\xfe\xff")), bytes.HasPrefix(b, []byte("\xff\xfe")),
		len(b) > 1 && (b[0] == 0 || b[1] == 0):
		return s.fail(ErrEncoding, "this looks like UTF-16 or UTF-32")
	}
	return nil
}

// tagLine returns the line where the start tag begins that was read last, as the last token.
func (s *scanner) tagLine() int {
	s.countTo(s.pos - s.tag)
	return s.line
}
