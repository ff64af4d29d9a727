package legible_test

import (
	"encoding/json"
	"html/template"
	"strings"
	"testing"
	"unicode"

	"carillon/internal/legible"
)

// evil has what strangers write to do something to who reads it.
const evil = "a\x1b[31m\u009b2J\u202eb\u2066\u200b\U000e0041\xff\u0000z"

func TestText(t *testing.T) {
	if got, want := legible.Text(evil), "a·[31m·2J·b···�·z"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got, want := legible.Line("a \n\t"+evil), "a a?[31m?2J?b?????z"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got := legible.Text("Zürich 東京 e\u0301 …"); got != "Zürich 東京 e\u0301 …" {
		t.Errorf("what is printable became %q", got)
	}
}

// Text that no encoder wrote may have broken UTF-8 in it.
func TestAppendBrokenJSON(t *testing.T) {
	const broken = "{\"a\": \"\x9b31m\xff\"}\n"
	if got, want := string(legible.AppendJSON(nil, []byte(broken))), "{\"a\": \"\ufffd31m\ufffd\"}\n"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// Escaped JSON is the same JSON, and has nothing in it that is not printable.
func TestAppendJSON(t *testing.T) {
	for _, s := range []string{"", "plain", "\n", evil, "\\u202e", "\U0010ffff\ufffd", strings.ToValidUTF8(evil, "")} {
		text, err := json.MarshalIndent(map[string]string{s: s}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		escaped := legible.AppendJSON(nil, text)
		var before, after map[string]string
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &after); err != nil {
			t.Fatalf("%s: %v", escaped, err)
		}
		for name, value := range before {
			if after[name] != value {
				t.Errorf("%q became %q", before, after)
			}
		}
		if odd := strings.IndexFunc(string(escaped), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); odd >= 0 {
			t.Errorf("%q is not printable", escaped[odd:])
		}
	}
}

// A page shows nothing of the kind, and its forms post what was there.
func TestHTML(t *testing.T) {
	page := template.Must(
		template.New("").Parse(`<p title="{{.}}">{{.}}</p><input name="x" value="{{.}}"><a href="/?q={{.}}">1` + "\u202f" + `000</a>`),
	)
	var b strings.Builder
	if err := page.Execute(&b, "a\u202e<\">\u009bz"); err != nil {
		t.Fatal(err)
	}
	want := "<p title=\"a·&lt;&#34;&gt;·z\">a·&lt;&#34;&gt;·z</p><input name=\"x\" value=\"a\u202e&lt;&#34;&gt;\u009bz\">" +
		"<a href=\"/?q=a%e2%80%ae%3c%22%3e%c2%9bz\">1\u202f000</a>"
	if got := string(legible.HTML([]byte(b.String()))); got != want {
		t.Errorf("\n%q; want\n%q", got, want)
	}
}
