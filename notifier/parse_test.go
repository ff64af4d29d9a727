package notifier_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

func TestParseEvent(t *testing.T) {
	got, err := notifier.ParseEvent([]byte(` {
		"loc": "http://a.example/\u00e9\ud83d\udd14?a=b&c", "change": "updated", "lastmod": "2026-03-02T12:00:00.50+01:00",
		"datetime": "2026-03-02T11:00:01.123456789Z", "hash": "md5:1584abdf8ebdc9802ac0c6a7402c03b6",
		"length": 18446744073709551617, "type": "text/html", "encoding": "gzip", "sets": ["a", "b"],
		"ln": [{"rel": "duplicate", "href": "http://b.example/", "pri": 1, "modified": "2026-03-01", "length": 0,
			"hash": "md5:1584abdf8ebdc9802ac0c6a7402c03b6", "type": "text/html", "encoding": "br"},
			{"href": "urn:x:y", "rel": "via"}]
	} `))
	if err != nil {
		t.Fatal(err)
	}
	want := notifier.Event{Sets: []string{"a", "b"}, Entry: payload.Entry{
		Loc: "http://a.example/é🔔?a=b&c", Change: payload.Updated, LastMod: "2026-03-02T11:00:00.50Z",
		Datetime: time.Date(2026, 3, 2, 11, 0, 1, 123456789, time.UTC), Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6",
		Length: "18446744073709551617", Type: "text/html", Encoding: "gzip",
		Links: []payload.Link{{
			Rel: "duplicate", Href: "http://b.example/", Pri: "1", Modified: "2026-03-01", Length: "0",
			Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6", Type: "text/html", Encoding: "br",
		}, {Rel: "via", Href: "urn:x:y"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// event is an event with one thing changed or added.
func event(fields string) string {
	return `{"loc":"http://a.example/","change":"created",` + fields + `}`
}

func TestParseEventRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", ``, "must be an event (a JSON object), found the end"},
		{"an array", `[]`, "must be an event"},
		{"a byte order mark", "\ufeff{}", "found a byte order mark"},
		{"no fields", `{}`, "loc is missing"},
		{"no change", `{"loc":"http://a.example/"}`, "change is missing"},
		{"two objects", event(`"type":"a/b"`) + `{}`, "expected nothing more"},
		{"trailing comma", event(``), "expected the name of a field"},
		{"no colon", `{"loc" "x"}`, "loc has no value"},
		{"cut off", `{"loc":"http://a.example/"`, "expected ','"},
		{"cut off in a string", `{"loc":"http://a`, "loc is a string that does not end"},
		{"unknown field", event(`"colour":"red"`), "colour is not a field"},
		{"field in another case", event(`"Type":"a/b"`), "Type is not a field"},
		{"long unknown field", event(`"` + strings.Repeat("x", 99) + `":1`), strings.Repeat("x", 40) + "… is not"},
		{"unknown field over two lines", event(`"a\nb":1`), `"a\nb" is not a field`},
		{"field twice", event(`"loc":"http://a.example/"`), "loc stands twice"},
		{"field twice by an escape", event(`"\u006coc":"http://a.example/"`), "loc stands twice"},
		{"field of a link twice", event(`"ln":[{"rel":"via","rel":"via","href":"http://b.example/"}]`), "ln[0].rel stands twice"},
		{"unknown field of a link", event(`"ln":[{"rel":"via","title":"x","href":"http://b.example/"}]`), "ln[0].title is not a field"},
		{"link without href", event(`"ln":[{"rel":"via","href":"http://b.example/"},{"rel":"via"}]`), "ln[1].href is missing"},
		{"link with a path", event(`"ln":[{"rel":"duplicate","href":"http://b.example/","path":"/b"}]`), "ln[0].path must be left out"},
		{"patch without a type", event(
			`"ln":[{"rel":"http://www.openarchives.org/rs/terms/patch","href":"http://b.example/"}]`,
		), "ln[0].type is missing"},
		{"link without rel", event(`"ln":[{"href":"http://b.example/"}]`), "ln[0].rel is missing"},
		{"link that is a string", event(`"ln":["http://b.example/"]`), "ln[0] must be a link"},
		{"links that are one link", event(`"ln":{}`), "ln must be an array"},
		{"null", event(`"type":null`), "type must be a string, found null"},
		{"number for a string", event(`"type":1`), "type must be a string"},
		{"empty string", event(`"type":""`), "type is empty"},
		{"nested", event(`"type":[[[[`), "type must be a string"},
		{"length as a string", event(`"length":"1"`), "length must be a number"},
		{"negative length", event(`"length":-1`), "length must be a whole number"},
		{"fraction", event(`"length":1.0`), "length must be a whole number"},
		{"exponent", event(`"length":1e3`), "length must be a whole number"},
		{"leading zero", event(`"length":01`), "length must be a whole number"},
		{"pri of 0", event(`"ln":[{"rel":"via","href":"http://b.example/","pri":0}]`), "ln[0].pri must be"},
		{"invalid UTF-8", event("\"type\":\"a\xff\""), "type is not valid UTF-8"},
		{"invalid UTF-8 in a name", event("\"ty\xffpe\":\"a\""), "a field's name is not valid UTF-8"},
		{"surrogate in UTF-8", event("\"type\":\"\xed\xa0\x80\""), "type is not valid UTF-8"},
		{"lone high surrogate", event(`"type":"\ud800"`), "type has a lone surrogate"},
		{"lone low surrogate", event(`"type":"\udc00"`), "type has a lone surrogate"},
		{"two high surrogates", event(`"type":"\ud800\ud800"`), "type has a lone surrogate"},
		{"control character", event("\"type\":\"a\nb\""), "type has the control character U+000A"},
		{"escaped control character", event(`"type":"a\u0000b"`), "type has the character U+0000"},
		{"not a character of XML", event(`"type":"\uffff"`), "type has the character U+FFFF"},
		{"unknown escape", event(`"type":"\x41"`), `type has the escape "\\x"`},
		{"unknown escape of a control character", "{\"\\\x00\"", `name has the escape "\\\x00"`},
		{"short escape", event(`"type":"\u12"`), "type has a \\u escape"},
		{"bad change", `{"loc":"http://a.example/","change":"Created"}`, "change must be created, updated or deleted"},
		{"relative loc", `{"loc":"/a","change":"created"}`, "loc must be an absolute http or https URI"},
		{"loc of another scheme", `{"loc":"ftp://a.example/","change":"created"}`, "loc must be"},
		{"space in loc", `{"loc":"http://a.example/a b","change":"created"}`, "loc "},
		{"angle bracket in loc", `{"loc":"http://a.example/<a>","change":"created"}`, "loc "},
		{"long loc", `{"loc":"http://a.example/` + strings.Repeat("x", 2031) + `","change":"created"}`, "loc must have at most 2047"},
		{"lastmod", event(`"lastmod":"yesterday"`), "lastmod must be a W3C Datetime"},
		{"datetime", event(`"datetime":"2026-02-30"`), "datetime must be a W3C Datetime"},
		{"hash without digest", event(`"hash":"md5"`), "hash "},
		{"hash of another length", event(`"hash":"md5:12"`), "hash "},
		{"no sets", event(`"sets":[]`), "sets names no set"},
		{"set twice", event(`"sets":["a","a"]`), "sets[1] names a set twice"},
		{"set that is no string", event(`"sets":[1]`), "sets[0] must be a string"},
		{"too many sets", event(`"sets":[` + manySets(257) + `]`), "sets[256] is beyond"},
		{"too long", event(
			`"ln":[` + strings.Repeat(`{"rel":"via","href":"http://b.example/`+strings.Repeat("x", 2000)+`"},`, 600),
		), "more than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := notifier.ParseEvent([]byte(c.text))
			var wrong *notifier.InputError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v for %+v, want one with %q", err, e, c.want)
			}
			if strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("the message %q is not one line", err)
			}
		})
	}
}

func manySets(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"s%d"`, i)
	}
	return strings.Join(names, ",")
}

// parseLines is ParseLines, with the place of each event checked.
func parseLines(data []byte, limit int) ([]notifier.Event, error) {
	events, lines, err := notifier.ParseLines(data, limit)
	for i, line := range lines {
		if alone, err := notifier.ParseEvent(bytes.Split(data, []byte("\n"))[line-1]); err != nil || !reflect.DeepEqual(alone, events[i]) {
			return nil, fmt.Errorf("event %d is not on line %d: %+v, %w", i, line, alone, err)
		}
	}
	return events, err
}

func TestParseArrayAndLines(t *testing.T) {
	one := event(`"type":"a/b"`)
	for _, c := range []struct {
		name  string
		parse func([]byte, int) ([]notifier.Event, error)
		text  string
		n     int
		want  string
	}{
		{"object", notifier.ParseArray, one, 1, ""},
		{"array", notifier.ParseArray, "[" + one + " , " + one + "]\n", 2, ""},
		{"empty array", notifier.ParseArray, "[ ]", 0, ""},
		{"array of objects that are wrong", notifier.ParseArray, "[" + one + `,{"loc":1}]`, 0, "element 2: loc must be a string"},
		{"wrong object", notifier.ParseArray, `{"loc":1}`, 0, "element 1: loc must be a string"},
		{"array that does not end", notifier.ParseArray, "[" + one, 0, "element 1: expected ','"},
		{"array that ends early", notifier.ParseArray, "[" + one + ",]", 0, "element 2: must be an event"},
		{"two arrays", notifier.ParseArray, "[][]", 0, "expected nothing more"},
		{"NDJSON as JSON", notifier.ParseArray, one + "\n" + one, 0, "element 1: expected nothing more"},
		{"text", notifier.ParseArray, "hello", 0, "the body must be an event or an array of events, in JSON, found 'h'"},
		{"nothing", notifier.ParseArray, "", 0, "the body must be an event or an array of events, in JSON, found the end of the text"},
		{"too many elements", notifier.ParseArray, "[" + strings.Repeat(one+",", 3) + one + "]", 0, notifier.ErrTooMany.Error()},
		{"lines", parseLines, one + "\r\n\n \n" + one, 2, ""},
		{"no lines", parseLines, "", 0, ""},
		{"wrong line", parseLines, one + "\n\n" + `{"loc":"x"}` + "\n", 0, "line 3: loc must be"},
		{"array as NDJSON", parseLines, "[" + one + "]", 0, "line 1: must be an event"},
		{"event over two lines", parseLines, "{\n}", 0, "line 1: expected"},
		{"too many lines", parseLines, strings.Repeat(one+"\n", 4), 0, notifier.ErrTooMany.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, err := c.parse([]byte(c.text), 3)
			switch {
			case c.want == "" && (err != nil || len(events) != c.n):
				t.Errorf("%d events, %v; want %d", len(events), err, c.n)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestEventUnmarshalJSON(t *testing.T) {
	var events []notifier.Event
	if err := json.Unmarshal([]byte("["+event(`"length":1`)+"]"), &events); err != nil || events[0].Length != "1" {
		t.Errorf("%+v, %v", events, err)
	}
	if err := json.Unmarshal([]byte(event(`"Length":1`)), &notifier.Event{}); err == nil {
		t.Error("a field in another case is taken")
	}
}

func TestExampleEvents(t *testing.T) {
	text, err := os.ReadFile("../testdata/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	events, err := parseLines(text, notifier.MaxIntakeEvents)
	if err != nil || len(events) != 8 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func ExampleParseEvent() {
	e, err := notifier.ParseEvent([]byte(`{"loc": "https://example.org/a.pdf", "change": "created", "length": 8876}`))
	fmt.Println(e.Change, e.Loc, e.Length, err)
	_, err = notifier.ParseEvent([]byte(`{"loc": "https://example.org/a.pdf", "Change": "created"}`))
	fmt.Println(err)
	// Output:
	// created https://example.org/a.pdf 8876 <nil>
	// Change is not a field that is known here; names are in lower case
}

// FuzzParse: an accepted event is valid JSON that encoding/json reads in the same way, can be written
// as an entry, and comes back from its record.
func FuzzParse(f *testing.F) {
	examples, err := os.ReadFile("../testdata/events.ndjson")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(examples) {
		f.Add(line)
	}
	for _, seed := range []string{
		`{}`, `[]`, `[{}]`, event(`"length":18446744073709551616`), event(`"type":"\ud83d\udd14"`), event(`"ln":[]`),
		event(`"sets":["a","b"]`), event(`"datetime":"2026-03-02T11:00:01.5+01:00"`), event(`"type":"\ud800"`),
		event("\"type\":\"\xff\""), `{"loc":"http://a.example/","loc":1}`, "\ufeff{}", `{"a":[[[[[[[[[[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		events, err := notifier.ParseArray(text, 100)
		if lines, lerr := parseLines(text, 100); lerr == nil && err != nil {
			events, err = lines, nil
		} else if err == nil && !json.Valid(text) {
			t.Fatal("not JSON, but taken")
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Fatalf("the message %q is not one line", err)
			}
			return
		}
		for i := range events {
			checkTaken(t, events[i])
		}
	})
}

func checkTaken(t *testing.T, e notifier.Event) {
	record := notifier.AppendRecord(nil, &e)
	if size := notifier.RecordSize(&e); size != len(record) {
		t.Errorf("RecordSize = %d, want %d", size, len(record))
	}
	back, err := notifier.ParseRecord(record)
	back.Datetime, back.Sets = e.Datetime, e.Sets
	if len(e.Links) == 0 {
		e.Links = nil
	}
	if err != nil || !reflect.DeepEqual(back, e) {
		t.Fatalf("from its record comes %+v, %v; want %+v", back, err, e)
	}
	e.Datetime = time.Unix(1, 0)
	if _, err := payload.AppendEntry(nil, &e.Entry); err != nil {
		t.Fatalf("taken, but it cannot be written: %v", err)
	}
}

// TestParseRecordOfOlderVersions: they stored links that no document may carry. Those lose what is
// wrong with them, and what is left can be written.
func TestParseRecordOfOlderVersions(t *testing.T) {
	field := func(tag byte, value string) string { return string([]byte{tag, byte(len(value))}) + value }
	const link, rel, href, path = 8, 9, 10, 12
	record := field(1, "http://a.example/") + field(3, "updated") +
		field(link, "") + field(rel, payload.RelPatch) + field(href, "http://a.example/patch") +
		field(link, "") + field(rel, "duplicate") + field(href, "http://b.example/") + field(path, "/b")
	e, err := notifier.ParseRecord([]byte(record))
	want := []payload.Link{{Rel: "duplicate", Href: "http://b.example/"}}
	if err != nil || !reflect.DeepEqual(e.Links, want) {
		t.Fatalf("got %+v, %v", e.Links, err)
	}
	e.Datetime = time.Unix(1, 0)
	if _, err := payload.AppendEntry(nil, &e.Entry); err != nil {
		t.Error(err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(notifier.AppendRecord(nil, &notifier.Event{Entry: payload.Entry{Loc: "a", Links: []payload.Link{{Rel: "b", Pri: "1"}}}}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, record []byte) {
		if e, err := notifier.ParseRecord(record); err == nil {
			record := notifier.AppendRecord(nil, &e)
			if size := notifier.RecordSize(&e); size != len(record) {
				t.Errorf("RecordSize of %+v = %d, want %d", e, size, len(record))
			}
			again, err := notifier.ParseRecord(record)
			if err != nil || !reflect.DeepEqual(again, e) {
				t.Fatalf("%+v became %+v, %v", e, again, err)
			}
		} else if !errors.Is(err, notifier.ErrRecord) {
			t.Fatal(err)
		}
	})
}

// RecordSize is what AppendRecord appends, whatever the length of a value.
func TestRecordSize(t *testing.T) {
	for _, length := range []int{0, 1, 127, 128, 16_383, 16_384, 2_097_152} {
		e := notifier.Event{Entry: payload.Entry{
			Loc: strings.Repeat("a", length), Links: []payload.Link{{}, {Href: strings.Repeat("b", length)}},
		}}
		if got, want := notifier.RecordSize(&e), len(notifier.AppendRecord(nil, &e)); got != want {
			t.Errorf("RecordSize with values of %d bytes = %d, want %d", length, got, want)
		}
	}
}
