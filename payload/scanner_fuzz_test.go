package payload_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"carillon/payload"
)

// FuzzScanner: whatever the scanner accepts, encoding/xml accepts,
// and reads the same from it. The reverse does not hold: see the comment at scanner.
func FuzzScanner(f *testing.F) {
	for _, tt := range wellFormed {
		f.Add(tt.doc)
	}
	for _, tt := range broken {
		if len(tt.doc) < 1000 {
			f.Add(tt.doc)
		}
	}
	f.Fuzz(func(t *testing.T, doc string) {
		got, err := payload.Scan(strings.NewReader(doc), scanLimits)
		whole, errWhole := payload.ScanBytes([]byte(doc), scanLimits)
		// A token that is over the limit and has no end may be called either.
		tooLarge := errors.Is(err, payload.ErrTooLarge) || errors.Is(errWhole, payload.ErrTooLarge)
		if got != whole || !tooLarge && err.Error() != errWhole.Error() {
			t.Fatalf("from a reader:\n%s%v\nfrom bytes:\n%s%v", got, err, whole, errWhole)
		}
		if !errors.Is(err, io.EOF) || beyondEncodingXML(doc) {
			return
		}
		want, err := scanEncodingXML(doc)
		if err != nil {
			t.Fatalf("encoding/xml refuses it: %v", err)
		}
		if got := oneSpace.Replace(got); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// beyondEncodingXML reports what the two are known to see differently: names
// outside ASCII, XML versions, and uses of the name xmlns in odd places.
func beyondEncodingXML(doc string) bool {
	for i := range len(doc) {
		if doc[i] >= 0x80 {
			return true
		}
	}
	return strings.Contains(doc, "<?") || strings.Contains(doc, "xmlns:xml") || strings.Contains(doc, "XMLSchema")
}

// oneSpace makes white space in attributes, which encoding/xml does not
// normalize, look the same everywhere.
var oneSpace = strings.NewReplacer(`\n`, " ", `\t`, " ", `\r`, " ")

// scanEncodingXML is payload.Scan by the standard library.
func scanEncodingXML(doc string) (string, error) {
	d := xml.NewDecoder(strings.NewReader(doc))
	var out, text strings.Builder
	depth := 0
	flush := func() {
		if text.Len() > 0 && depth > 0 {
			fmt.Fprintf(&out, "text %q\n", text.String())
		}
		text.Reset()
	}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return oneSpace.Replace(out.String()), nil
		}
		if err != nil {
			return "", err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			flush()
			depth++
			fmt.Fprintf(&out, "start %d {%s}%s", depth, tok.Name.Space, tok.Name.Local)
			for _, a := range tok.Attr {
				if a.Name.Space != "xmlns" && a.Name != (xml.Name{Local: "xmlns"}) {
					fmt.Fprintf(&out, " {%s}%s=%q", a.Name.Space, a.Name.Local, a.Value)
				}
			}
			out.WriteByte('\n')
		case xml.EndElement:
			flush()
			fmt.Fprintf(&out, "end %d {%s}%s\n", depth, tok.Name.Space, tok.Name.Local)
			depth--
		case xml.CharData:
			text.Write(tok)
		}
	}
}
