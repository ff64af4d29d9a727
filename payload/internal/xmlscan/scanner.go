package xmlscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Errors of a Scanner, wrapped with the line where reading stopped.
var (
	// ErrSyntax: the input is not well-formed.
	ErrSyntax = errors.New("not well-formed XML")
	// ErrDoctype: the input has a document type declaration.
	ErrDoctype = errors.New("a document type declaration is not accepted")
	// ErrEncoding: the input is not, or says that it is not, in UTF-8.
	ErrEncoding = errors.New("only UTF-8 is accepted")
	// ErrTooLarge: the document or one token of it is over its limit.
	ErrTooLarge = errors.New("document too large")
	// ErrTooDeep: elements are nested over the limit.
	ErrTooDeep = errors.New("elements nested too deeply")
)

// errEnd is the end of the input; whether that is an error depends on the place.
var errEnd = errors.New("end of input")

// Kind is the kind of a token.
type Kind uint8

// The kinds of tokens. An empty element is a Start and an End; CDATA is Text;
// comments and processing instructions are passed over.
const (
	Start Kind = iota + 1
	End
	Text
)

// Limits bound what a document may cost. All must be greater than 0.
type Limits struct {
	Bytes int64 // of the whole document
	Token int   // bytes of one tag, run of text or comment
	Depth int   // of nested elements
}

// maxAttrs bounds the attributes of one tag, and the namespace declarations in
// force: every attribute is compared with every other and with the declarations.
const maxAttrs = 64

// firstBuffer is how much is read at once, until a token needs more.
const firstBuffer = 64 << 10

// Attr is one attribute; namespace declarations are not among them. Space is
// the namespace, empty for an attribute without a prefix.
type Attr struct {
	Space string
	Local []byte
	Value []byte
}

// Scanner reads one document. What its methods return is valid until Next is
// called again. It is for one goroutine.
type Scanner struct {
	src   io.Reader // nil: all input is in buf
	lim   Limits
	buf   []byte // buf[pos:] is read and not consumed
	pos   int
	eof   bool
	total int64 // bytes read from src
	line  int

	begun    bool // the byte order mark was looked for
	prolog   bool // nothing was consumed yet: an XML declaration may come
	rootDone bool
	popNext  bool // the End on top of the stack has been given out
	empty    bool // the Start on top was an empty element: its End comes next

	names    []byte // qualified names of the open elements, end to end
	frames   []frame
	bindings []binding
	attrs    []Attr
	rawAttrs []rawAttr
	text     []byte
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

// New returns a Scanner of what r gives.
func New(r io.Reader, lim Limits) *Scanner {
	return &Scanner{src: r, lim: lim, line: 1, prolog: true, buf: make([]byte, 0, firstBuffer)}
}

// NewBytes returns a Scanner of doc, which it does not copy and does not change.
func NewBytes(doc []byte, lim Limits) *Scanner {
	if int64(len(doc)) > lim.Bytes {
		return New(bytes.NewReader(doc), lim) // it will stop at the limit
	}
	return &Scanner{lim: lim, line: 1, prolog: true, buf: doc, eof: true}
}

// Depth is the number of open elements; at Start and End the element itself
// counts, so that the root has 1.
func (s *Scanner) Depth() int { return len(s.frames) }

// Space returns the namespace of the innermost open element: at Start and End
// the one whose tag was read.
func (s *Scanner) Space() string { return s.frames[len(s.frames)-1].space }

// Local returns the local name of the innermost open element.
func (s *Scanner) Local() []byte { return s.names[s.frames[len(s.frames)-1].local:] }

// Attrs returns the attributes of a Start.
func (s *Scanner) Attrs() []Attr { return s.attrs }

// Text returns the characters of a Text, decoded.
func (s *Scanner) Text() []byte { return s.text }

// Next reads the next token. It returns io.EOF when the document is complete
// and nothing but white space, comments and processing instructions follow.
// After an error it returns the same error.
func (s *Scanner) Next() (Kind, error) {
	if s.err != nil {
		return 0, s.err
	}
	k, err := s.next()
	if err != nil {
		s.err = err
	}
	return k, err
}

func (s *Scanner) next() (Kind, error) {
	if s.popNext {
		s.pop()
	}
	if s.empty {
		s.empty, s.popNext = false, true
		return End, nil
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
		var k Kind
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

func (s *Scanner) pop() {
	s.popNext = false
	f := s.frames[len(s.frames)-1]
	s.names = s.names[:f.name]
	s.bindings = s.bindings[:f.bindings]
	s.frames = s.frames[:len(s.frames)-1]
	s.rootDone = len(s.frames) == 0
}

// atEnd says what the end of the input, or trouble in reading on, means between
// two tokens.
func (s *Scanner) atEnd(err error) error {
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
func (s *Scanner) begin() error {
	s.begun = true
	if err := s.need(3); err != nil && !errors.Is(err, errEnd) {
		return err
	}
	b := s.buf[s.pos:]
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		s.pos += 3
	case bytes.HasPrefix(b, []byte("\xfe\xff")), bytes.HasPrefix(b, []byte("\xff\xfe")),
		len(b) > 1 && (b[0] == 0 || b[1] == 0):
		return s.fail(ErrEncoding, "this looks like UTF-16 or UTF-32")
	}
	return nil
}

// need makes sure that n bytes of the current token are in the buffer.
func (s *Scanner) need(n int) error {
	for len(s.buf)-s.pos < n {
		if err := s.more(); err != nil {
			return err
		}
	}
	return nil
}

// index returns where end first stands in the input, counted from pos, at or
// after from; the input up to there is in the buffer then.
func (s *Scanner) index(end string, from int) (int, error) {
	for {
		have := s.buf[s.pos:]
		if i := bytes.Index(have[min(from, len(have)):], []byte(end)); i >= 0 {
			return s.within(from + i)
		}
		from = max(from, len(have)-len(end)+1)
		if err := s.more(); err != nil {
			return 0, s.inToken(err)
		}
	}
}

// within lets the length n of a token pass if it is within the limit.
func (s *Scanner) within(n int) (int, error) {
	if n > s.lim.Token {
		return 0, s.fail(ErrTooLarge, fmt.Sprintf("one part of it has more than %d bytes", s.lim.Token))
	}
	return n, nil
}

// inToken turns the end of the input into what it is inside a token.
func (s *Scanner) inToken(err error) error {
	if errors.Is(err, errEnd) {
		return s.syntax("the document ends too early")
	}
	return err
}

// more reads on. What is in the buffer from pos stays; everything before it is
// given up. It returns errEnd when there is no more.
func (s *Scanner) more() error {
	if s.eof {
		return errEnd
	}
	if _, err := s.within(len(s.buf) - s.pos); err != nil {
		return err
	}
	s.buf = s.buf[:copy(s.buf, s.buf[s.pos:])]
	s.pos = 0
	if len(s.buf) == cap(s.buf) {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), s.buf...)
	}
	for range 100 {
		n, err := s.src.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		s.total += int64(n)
		switch {
		case s.total > s.lim.Bytes:
			return s.fail(ErrTooLarge, fmt.Sprintf("it has more than %d bytes", s.lim.Bytes))
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("reading XML: %w", err)
		}
		s.eof = err != nil
		if n > 0 {
			return nil
		}
		if s.eof {
			return errEnd
		}
	}
	return io.ErrNoProgress
}

// consume passes over the next n bytes.
func (s *Scanner) consume(n int) {
	s.line += bytes.Count(s.buf[s.pos:s.pos+n], []byte{'\n'})
	s.pos += n
}

func (s *Scanner) syntax(reason string) error { return s.fail(ErrSyntax, reason) }

func (s *Scanner) fail(kind error, reason string) error {
	return fmt.Errorf("%w, line %d: %s", kind, s.line, reason)
}
