package payload

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Scan writes out every token that the scanner reads from r, one a line; runs of
// text are joined.
func Scan(r io.Reader, lim Limits) (string, error) { return scanAll(newScanner(r, lim)) }

// ScanBytes is Scan of a document that is in memory.
func ScanBytes(doc []byte, lim Limits) (string, error) { return scanAll(newBytesScanner(doc, lim)) }

func scanAll(s *scanner) (string, error) {
	var out, text strings.Builder
	for {
		k, err := s.token()
		if k != tokenText && text.Len() > 0 {
			fmt.Fprintf(&out, "text %q\n", text.String())
			text.Reset()
		}
		if err != nil {
			if _, again := s.token(); again != err {
				err = fmt.Errorf("first %w, then %w", err, again)
			}
			return out.String(), err
		}
		switch k {
		case tokenStart:
			fmt.Fprintf(&out, "start %d {%s}%s", s.depth(), s.space(), s.local())
			for _, a := range s.attrs {
				fmt.Fprintf(&out, " {%s}%s=%q", a.space, a.local, a.value)
			}
			out.WriteByte('\n')
		case tokenEnd:
			fmt.Fprintf(&out, "end %d {%s}%s\n", s.depth(), s.space(), s.local())
		case tokenText:
			text.Write(s.text)
		}
	}
}

// AppendByRules writes e as AppendEntry does, by the rules alone.
func AppendByRules(dst []byte, e *Entry) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return dst, err
	}
	return new(pen).element(dst, "url", e, ofChange), nil
}

// WebURI is webURI.
func WebURI(s string) (known, escapes bool) { return webURI(s) }

// CheckWebURI is what the rules say of a URI of the web.
func CheckWebURI(s string) string { return check(s, true, webURIRule) }

// Known returns for each field the verdict of the quick look on s, and that of the rules.
func Known(s string) map[string][2]bool {
	return map[string][2]bool{
		"hash":     {isHash(s), check(s, true, hashRule) == ""},
		"datetime": {isSecond(s), check(s, true, datetimeRule) == ""},
		"type":     {isMediaType(s), check(s, true, mediaTypeRule) == ""},
		"encoding": {isPlainToken(s), check(s, true, encodingRule) == ""},
	}
}

// AppendEscaped is appendEscaped.
func AppendEscaped(dst []byte, s string) []byte { return appendEscaped(dst, s) }

// AppendDatetime is appendDatetime.
func AppendDatetime(dst []byte, t time.Time) []byte { return appendDatetime(dst, t) }

// Plain is h without how the document's elements stood.
func Plain(h Header) Header {
	h.shape = shape{}
	return h
}

// Oddities is how many kinds of them there are.
const Oddities = int(oddCount)

// Noted reports each kind whether i noted it.
func Noted(i *Inspector) (noted [oddCount]bool) {
	for k, n := range i.noted {
		noted[k] = n > 0
	}
	return noted
}

// Rulings are the level and the mending of each kind.
func Rulings() (levels []Level, mends []string) {
	for _, r := range rulings {
		levels, mends = append(levels, r.level), append(mends, r.mend)
	}
	return levels, mends
}

// Listed is how many capabilities i remembers.
func Listed(i *Inspector) int { return len(i.listed) }

// IsPlain is isPlain, and whether the rules find nothing.
func IsPlain(l *Link) (plain, valid bool) {
	return l.isPlain(), l.validateFields() == nil && isRegistered(l.Rel)
}
