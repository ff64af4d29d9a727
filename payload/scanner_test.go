package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"carillon/payload"
)

var scanLimits = payload.Limits{Bytes: 1 << 20, EntryBytes: 4096, Depth: 16}

var wellFormed = []struct{ name, doc, want string }{
	{"empty element", `<a/>`, "start 1 {}a\nend 1 {}a\n"},
	{"byte order mark", "\xef\xbb\xbf<?xml version='1.0'?><a/>", "start 1 {}a\nend 1 {}a\n"},
	{"declaration", `<?xml version="1.0" encoding="utf-8" standalone="yes" ?><a></a>`, "start 1 {}a\nend 1 {}a\n"},
	{"around the root", "<!-- - --> <?pi x?>\n<a/>\n<!--b--><?p?> ", "start 1 {}a\nend 1 {}a\n"},
	{"text and references", `<a>1 &lt;&gt;&amp;&quot;&apos; &#65;&#x1F514;</a>`, "start 1 {}a\ntext \"1 <>&\\\"' A🔔\"\nend 1 {}a\n"},
	{"no double decoding", `<a>&amp;lt;</a>`, "start 1 {}a\ntext \"&lt;\"\nend 1 {}a\n"},
	{"CDATA", `<a>x<![CDATA[<b>&amp;]]]]>y</a>`, "start 1 {}a\ntext \"x<b>&amp;]]y\"\nend 1 {}a\n"},
	{"line ends", "<a>1\r\n2\r3\n4&#13;</a>", "start 1 {}a\ntext \"1\\n2\\n3\\n4\\r\"\nend 1 {}a\n"},
	{"attributes", "<a b='>\"' c = \"1\r\n2\t3&#10;4\"/>", "start 1 {}a {}b=\">\\\"\" {}c=\"1 2 3\\n4\"\nend 1 {}a\n"},
	{"comments split text", `<a>1<!-- x -->2</a>`, "start 1 {}a\ntext \"12\"\nend 1 {}a\n"},
	{"end tag with space", "<a></a \n>", "start 1 {}a\nend 1 {}a\n"},
	{
		"namespaces",
		`<a xmlns="u:1" xmlns:p="u:2" p:x="1" x="2"><p:b xmlns:p="u:3" p:y="3"/><p:c xmlns=""><d/></p:c><e xml:lang="en"/></a>`,
		"start 1 {u:1}a {u:2}x=\"1\" {}x=\"2\"\nstart 2 {u:3}b {u:3}y=\"3\"\nend 2 {u:3}b\n" +
			"start 2 {u:2}c\nstart 3 {}d\nend 3 {}d\nend 2 {u:2}c\n" +
			"start 2 {u:1}e {http://www.w3.org/XML/1998/namespace}lang=\"en\"\nend 2 {u:1}e\nend 1 {u:1}a\n",
	},
	{"names outside ASCII", `<é ü="1"/>`, "start 1 {}é {}ü=\"1\"\nend 1 {}é\n"},
}

func TestWellFormed(t *testing.T) {
	for _, tt := range wellFormed {
		t.Run(tt.name, func(t *testing.T) {
			for way, got := range scans(tt.doc) {
				if got.tokens != tt.want || !errors.Is(got.err, io.EOF) {
					t.Errorf("%s: got %v and\n%swant\n%s", way, got.err, got.tokens, tt.want)
				}
			}
		})
	}
}

// scans scans doc in each way that input can arrive.
func scans(doc string) map[string]scanned {
	ways := map[string]scanned{}
	add := func(way string) func(string, error) {
		return func(tokens string, err error) { ways[way] = scanned{tokens, err} }
	}
	r := func() io.Reader { return strings.NewReader(doc) }
	add("whole")(payload.ScanBytes([]byte(doc), scanLimits))
	add("reader")(payload.Scan(r(), scanLimits))
	add("by bytes")(payload.Scan(iotest.OneByteReader(r()), scanLimits))
	add("EOF at once")(payload.Scan(iotest.DataErrReader(r()), scanLimits))
	return ways
}

type scanned struct {
	tokens string
	err    error
}

var broken = []struct {
	name, doc string
	want      error
	reason    string
}{
	{"nothing", "", payload.ErrSyntax, "there is no element"},
	{"only space", " \n", payload.ErrSyntax, "there is no element"},
	{"JSON", `{"a": "<b/>"}`, payload.ErrSyntax, "text outside"},
	{"text after", `<a/>x`, payload.ErrSyntax, "text outside"},
	{"reference after", `<a/>&#32;`, payload.ErrSyntax, "text outside"},
	{"two roots", `<a/><b/>`, payload.ErrSyntax, "second root"},
	{"open element", "<a>\n<b></b>", payload.ErrSyntax, "line 2: the document ends inside an element"},
	{"open text", "<a>text", payload.ErrSyntax, "ends too early"},
	{"open tag", `<a b="`, payload.ErrSyntax, "ends too early"},
	{"open comment", `<!-- a`, payload.ErrSyntax, "ends too early"},
	{"lone bracket", `<`, payload.ErrSyntax, "ends too early"},
	{"crossed tags", `<a><b></a></b>`, payload.ErrSyntax, "does not match"},
	{"end tag first", `</a>`, payload.ErrSyntax, "without a start tag"},
	{"end tag with attribute", `<a></a b="">`, payload.ErrSyntax, "broken end tag"},
	{"bracket in tag", `<a <b/>`, payload.ErrSyntax, "< inside a tag"},
	{"bracket in value", `<a b="<"/>`, payload.ErrSyntax, "< in an attribute"},
	{"value without quotes", `<a b=c/>`, payload.ErrSyntax, "quoted value"},
	{"attribute without value", `<a b/>`, payload.ErrSyntax, "quoted value"},
	{"attributes run together", `<a b="1"c="2"/>`, payload.ErrSyntax, "no space before"},
	{"attribute twice", `<a b="1" b="1"/>`, payload.ErrSyntax, "attribute twice"},
	{"attribute twice by prefix", `<a xmlns:p="u" xmlns:q="u" p:b="" q:b=""/>`, payload.ErrSyntax, "attribute twice"},
	{"name with digit first", `<1/>`, payload.ErrSyntax, "proper name"},
	{"space before name", `< a/>`, payload.ErrSyntax, "proper name"},
	{"two colons", `<a:b:c xmlns:a="u"/>`, payload.ErrSyntax, "proper name"},
	{"empty prefix", `<:a/>`, payload.ErrSyntax, "proper name"},
	{"slash inside tag", `<a/ >`, payload.ErrSyntax, "no space before"},
	{"undeclared prefix", `<p:a/>`, payload.ErrSyntax, "undeclared prefix"},
	{"undeclared attribute prefix", `<a p:b=""/>`, payload.ErrSyntax, "undeclared prefix"},
	{"prefix out of scope", `<a><b xmlns:p="u"/><p:c/></a>`, payload.ErrSyntax, "undeclared prefix"},
	{"prefix undeclared again", `<a xmlns:p=""/>`, payload.ErrSyntax, "not allowed"},
	{"xmlns bound", `<a xmlns:xmlns="u"/>`, payload.ErrSyntax, "not allowed"},
	{"xml bound", `<a xmlns:xml="u"/>`, payload.ErrSyntax, "not allowed"},
	{"prefix declared twice", `<a xmlns:p="u" xmlns:p="v"/>`, payload.ErrSyntax, "declared twice"},
	{"CDATA end in text", `<a>]]></a>`, payload.ErrSyntax, "]]> in text"},
	{"CDATA outside", `<![CDATA[]]><a/>`, payload.ErrSyntax, "CDATA outside"},
	{"dashes in comment", `<a><!-- -- --></a>`, payload.ErrSyntax, "-- inside"},
	{"three dashes", `<a><!-- ---></a>`, payload.ErrSyntax, "-- inside"},
	{"declaration late", ` <?xml version="1.0"?><a/>`, payload.ErrSyntax, "very start"},
	{"declaration inside", `<a><?xml version="1.0"?></a>`, payload.ErrSyntax, "very start"},
	{"declaration without version", `<?xml encoding="UTF-8"?><a/>`, payload.ErrSyntax, "broken XML declaration"},
	{"empty declaration", `<?xml ?><a/>`, payload.ErrSyntax, "no version"},
	{"version 2", `<?xml version="2.0"?><a/>`, payload.ErrSyntax, "version is not 1.0"},
	{"instruction without name", `<? x?><a/>`, payload.ErrSyntax, "proper name"},
	{"instruction name runs on", `<?a+?><a/>`, payload.ErrSyntax, "no space after"},
	{"unknown entity", `<a>&nbsp;</a>`, payload.ErrSyntax, "does not exist"},
	{"entity in attribute", `<a b="&x;"/>`, payload.ErrSyntax, "does not exist"},
	{"bare ampersand", `<a>a & b</a>`, payload.ErrSyntax, "begins no reference"},
	{"reference to NUL", `<a>&#0;</a>`, payload.ErrSyntax, "does not exist"},
	{"reference to surrogate", `<a>&#xD800;</a>`, payload.ErrSyntax, "does not exist"},
	{"reference beyond Unicode", `<a>&#x110000;</a>`, payload.ErrSyntax, "does not exist"},
	{"control character", "<a>\x01</a>", payload.ErrSyntax, "does not allow"},
	{"control character after plain text", "<a>0123456789abcdef\x1f</a>", payload.ErrSyntax, "does not allow"},
	{"noncharacter", "<a>\uffff</a>", payload.ErrSyntax, "does not allow"},
	{"control character in value", "<a b='\x02'/>", payload.ErrSyntax, "does not allow"},
	{"not UTF-8", "<a>\xff\xfe</a>", payload.ErrSyntax, "not in UTF-8"},
	{"encoded surrogate", "<a>\xed\xa0\x80</a>", payload.ErrSyntax, "not in UTF-8"},
	{"bad character in comment", "<!--\x01--><a/>", payload.ErrSyntax, "does not allow"},
	{"markup declaration", `<!ELEMENT a ANY><a/>`, payload.ErrSyntax, "neither"},
	{"doctype", `<!DOCTYPE a><a/>`, payload.ErrDoctype, "DOCTYPE"},
	{"billion laughs", billionLaughs, payload.ErrDoctype, "DOCTYPE"},
	{"latin-1", `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`, payload.ErrEncoding, "another encoding"},
	{"UTF-16", "\xff\xfe<\x00a\x00/\x00>\x00", payload.ErrEncoding, "UTF-16"},
	{"UTF-16 without mark", "\x00<\x00a\x00/\x00>", payload.ErrEncoding, "UTF-16"},
	{"too deep", strings.Repeat("<a>", 17), payload.ErrTooDeep, "nest"},
	{"long text", "<a>" + strings.Repeat("x", 4097) + "</a>", payload.ErrTooLarge, "4096"},
	{"long value", `<a b="` + strings.Repeat("x", 4097) + `"/>`, payload.ErrTooLarge, "4096"},
	{"long comment", "<!--" + strings.Repeat("x", 4097) + "--><a/>", payload.ErrTooLarge, "4096"},
	{"long name", "<" + strings.Repeat("x", 4097) + "/>", payload.ErrTooLarge, "4096"},
	{"many attributes", "<a" + numbered(` b%d=""`, 65) + "/>", payload.ErrTooLarge, "attributes"},
	{"many declarations", nested(numbered(` xmlns:p%d="u"`, 33), 2), payload.ErrTooLarge, "declarations"},
	{"long document", strings.Repeat("<!-- -->", 1<<17) + "<a/>", payload.ErrTooLarge, "1048576"},
}

const billionLaughs = `<?xml version="1.0"?>
<!DOCTYPE lolz [
 <!ENTITY lol "lol">
 <!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
 <!ENTITY lol3 "&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;">
]>
<lolz>&lol3;</lolz>`

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// nested puts attrs into n nested elements, renaming the prefixes of each.
func nested(attrs string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("<a" + strings.ReplaceAll(attrs, ":p", fmt.Sprintf(":p%d_", i)) + ">")
	}
	return b.String() + strings.Repeat("</a>", n)
}

func TestBroken(t *testing.T) {
	for _, tt := range broken {
		t.Run(tt.name, func(t *testing.T) {
			for way, got := range scans(tt.doc) {
				if !errors.Is(got.err, tt.want) || !strings.Contains(got.err.Error(), tt.reason) {
					t.Errorf("%s: got %v, want %v with %q", way, got.err, tt.want, tt.reason)
				}
			}
		})
	}
}

// At the limits themselves everything is read.
func TestLimitsAreInclusive(t *testing.T) {
	for name, doc := range map[string]string{
		"depth":      strings.Repeat("<a>", 16) + strings.Repeat("</a>", 16),
		"text":       "<a>" + strings.Repeat("x", 4096) + "</a>",
		"attributes": "<a" + numbered(` b%d=""`, 64) + "/>",
		"document":   strings.Repeat("<!-- -->", 1<<17-1) + "<a></a> ",
	} {
		t.Run(name, func(t *testing.T) {
			for way, got := range scans(doc) {
				if !errors.Is(got.err, io.EOF) {
					t.Errorf("%s: %v", way, got.err)
				}
			}
		})
	}
}

func TestReadErrorIsPassedOn(t *testing.T) {
	r := io.MultiReader(strings.NewReader("<a>"), iotest.ErrReader(io.ErrClosedPipe))
	if _, err := payload.Scan(r, scanLimits); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, payload.ErrSyntax) {
		t.Errorf("got %v", err)
	}
}

// A reader that never gives anything does not hold the scanner for ever.
func TestNoProgress(t *testing.T) {
	if _, err := payload.Scan(nothing{}, scanLimits); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestBytesAreNotChanged(t *testing.T) {
	doc := []byte("<a b='&amp;\r\n'>&lt;\r\n</a>")
	before := bytes.Clone(doc)
	if _, err := payload.ScanBytes(doc, scanLimits); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, before) {
		t.Errorf("the document was changed to %q", doc)
	}
}

// References in an attribute are found at any place in a value that is scanned eight bytes at a time,
// and > ends no value.
func TestAttributesByWords(t *testing.T) {
	for _, tt := range []struct{ told, want string }{
		{"\n", " "}, {"\t", " "}, {"\r\n", " "}, {"&lt;", "<"}, {">", ">"}, {"'>", "'>"}, {"/>", "/>"}, {"é", "é"}, {"<", ""}, {"\x01", ""},
	} {
		for length := range 20 {
			for i := range length + 1 {
				value := strings.Repeat("a", i) + "%s" + strings.Repeat("b", length-i)
				doc := fmt.Sprintf(`<x y="`+value+`" z="1"/>`, tt.told)
				tokens := fmt.Sprintf("start 1 {}x {}y=%q {}z=\"1\"\nend 1 {}x\n", fmt.Sprintf(value, tt.want))
				for way, got := range scans(doc) {
					switch {
					case tt.want == "" && !errors.Is(got.err, payload.ErrSyntax):
						t.Errorf("%s, %q: got %v", way, doc, got.err)
					case tt.want != "" && (got.tokens != tokens || !errors.Is(got.err, io.EOF)):
						t.Errorf("%s, %q: got %v and\n%swant\n%s", way, doc, got.err, got.tokens, tokens)
					}
				}
			}
		}
	}
}
