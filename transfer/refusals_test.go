package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"carillon/delivery"
	"carillon/transfer"
)

// sealed gives a changed stream the right checksum: the fault must be found by itself.
func sealed(lines []string) []byte {
	before := strings.Join(lines[:len(lines)-1], "")
	sum := fmt.Sprintf(`"sha256":"%x"`, sha256.Sum256([]byte(before)))
	return []byte(before + regexp.MustCompile(`"sha256":"[^"]*"`).ReplaceAllString(lines[len(lines)-1], sum))
}

// split gives the lines of a stream, each with its end.
func split(stream []byte) []string {
	return slices.Collect(strings.Lines(string(stream)))
}

func lineOf(t *testing.T, lines []string, kind string) int {
	t.Helper()
	for i, line := range lines {
		if strings.HasPrefix(line, `{"kind":"`+kind+`"`) {
			return i
		}
	}
	t.Fatalf("no line of the kind %s", kind)
	return 0
}

// A wrong line is refused with its number and the reason, though count and checksum are right.
func TestRefusesALine(t *testing.T) {
	from := memory(t)
	fill(t, from, 5)
	stream := export(t, from)
	for name, test := range map[string]struct{ kind, old, new, want string }{
		"a Source of no name":        {"source", `"name":"source-0"`, `"name":"a b"`, "is not a name"},
		"a Source without topics":    {"source", `["https://source.example/","https://0.example/<&>"]`, `[]`, "needs a topic prefix"},
		"a prefix that is none":      {"source", `"https://source.example/"`, `"source.example/"`, "topic prefix"},
		"a Source without a token":   {"source", `"token_sha256":"`, `"token_sha256":"00`, "64 hexadecimal digits"},
		"a Source's token itself":    {"source", `"token_sha256"`, `"token":"x","token_sha256"`, "unknown field"},
		"an unknown kind":            {"ping", `"kind":"ping"`, `"kind":"peal"`, `unknown kind "peal"`},
		"no kind":                    {"ping", `"kind":"ping",`, ``, "does not begin with its kind"},
		"not JSON":                   {"ping", `}`, `]`, "invalid character"},
		"an unknown field":           {"ping", `}`, `,"count":1}`, `unknown field "count"`},
		"two records":                {"ping", `}`, `}{}`, "something follows the record"},
		"an empty topic":             {"ping", "https://source.example/%7Enew", "", "topic is empty"},
		"a negative number":          {"topic", `"head":`, `"head":-`, "cannot unmarshal"},
		"a number without an end":    {"topic", `"head":`, `"head":999`, "head is 9999007199254740891"},
		"no head":                    {"topic", `"head":9007199254740891,`, ``, "head is 0"},
		"a topic in another form":    {"topic", "b=~chime", "b=%7Echime", "form to compare by"},
		"no id of the last":          {"topic", `"last_id"`, `"last_until":"","last_id"`, ""},
		"a short digest":             {"topic", `"last_id"`, `"last_digest":"00ff","last_id"`, "64 hexadecimal digits"},
		"a number of no place":       {"notification", `"seq":3`, `"seq":0`, "seq is 0"},
		"an after that is not":       {"notification", `"after":2`, `"after":3`, "after is not before seq"},
		"a number above the head":    {"notification", `"seq":3`, `"seq":9007199254740892`, "does not belong to the topic"},
		"no body":                    {"notification", `,"body":"`, `,"from":"`, "body is missing"},
		"a body that is not base64":  {"notification", `"body":"`, `"body":"!`, "illegal base64"},
		"a time that is not one":     {"notification", `"accepted":"2026`, `"accepted":"26`, "parsing time"},
		"no time":                    {"notification", `"accepted":"2026-11-20T12:00:00.123456792Z",`, ``, "accepted is missing"},
		"another topic's":            {"notification", `bells`, `bell`, "does not belong to the topic"},
		"a mode of no request":       {"request", `scribe"`, `"`, "mode is neither"},
		"another's id":               {"request", `/new/`, `/now/`, "id is not that of"},
		"no token":                   {"request", `"token"`, `"secret":"","token"`, ""},
		"a lease that is no time":    {"subscription", `"lease":"240h`, `"lease":"240z`, "unknown unit"},
		"settled before its start":   {"subscription", `"start":3,`, `"start":9007199254740990,`, "settled is"},
		"a failure without a name":   {"subscription", `"settled"`, `"last_failure":"unknown","settled"`, `unknown name "unknown"`},
		"an odd status":              {"subscription", `"settled"`, `"last_status":70000,"settled"`, "last_status"},
		"a replay without an end":    {"subscription", `"replay_next":3,"replay_last":4`, `"replay_next":3`, "replay_last is 0"},
		"a replay without a begin":   {"subscription", `"replay_next":3,"replay_last":4`, `"replay_last":4`, "replay_next is 0"},
		"a replay that ends early":   {"subscription", `"replay_next":3,"replay_last":4`, `"replay_next":5,"replay_last":4`, "replay_last is 4"},
		"a replay of no number":      {"subscription", `"replay_last":4`, `"replay_last":9007199254740992`, "replay_last is"},
		"replayed at no time":        {"gap", `"replayed":"2026`, `"replayed":"26`, "parsing time"},
		"a gap that ends too early":  {"gap", `"first":1`, `"first":3`, "last is 2"},
		"a gap for no reason":        {"gap", `"reason":"trimmed",`, ``, "reason is missing"},
		"a gap for an unknown one":   {"gap", `"reason":"trimmed"`, `"reason":"lost"`, `unknown name "lost"`},
		"text of no bytes":           {"request", `{"base64":"wyg="}`, `{"base32":"wyg="}`, "base32"},
		"text that is no text":       {"ping", `"topic":"`, `"topic":7,"x":"`, "cannot unmarshal"},
		"a word where a number goes": {"end", `"topics":3`, `"topics":"3"`, "cannot unmarshal"},
		"another count":              {"end", `"topics":3`, `"topics":4`, "it has 3 topics"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := split(stream)
			at := lineOf(t, lines, test.kind)
			for test.kind != "end" && !strings.Contains(lines[at], test.old) {
				at++
			}
			lines[at] = strings.Replace(lines[at], test.old, test.new, 1)
			_, err := transfer.Verify(t.Context(), bytes.NewReader(sealed(lines)), transfer.ImportConfig{})
			if test.want == "" {
				if err != nil {
					t.Errorf("%v; this one is fine", err)
				}
				return
			}
			line := fmt.Sprintf("line %d: ", at+1)
			if !errors.Is(err, transfer.ErrDamaged) || !strings.HasPrefix(err.Error(), line) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v; want one that says %q and %q", err, line, test.want)
			}
		})
	}
}

// Lines stand in their order, each once.
func TestRefusesAnotherOrder(t *testing.T) {
	from := memory(t)
	fill(t, from, 5)
	stream := export(t, from)
	for name, move := range map[string][2]string{
		"a ping after a subscription":      {"ping", "subscription"},
		"a topic after a request":          {"topic", "request"},
		"a gap before its subscription":    {"subscription", "gap"},
		"a notification before its topic":  {"topic", "notification"},
		"a request after another's place":  {"request", "request"},
		"a ping after another's place":     {"ping", "ping"},
		"a notification before an earlier": {"notification", "notification"},
		"a Source after a topic":           {"source", "topic"},
		"a Source after another's place":   {"source", "source"},
		"a header again":                   {"header", "ping"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := split(stream)
			at := lineOf(t, lines, move[0])
			to := at + 1 + lineOf(t, lines[at+1:], move[1])
			moved := append(append([]string{}, lines[:at]...), lines[at+1:to+1]...)
			moved = append(append(moved, lines[at]), lines[to+1:]...)
			if move[0] == "header" {
				moved = append([]string{lines[0]}, moved...)
			}
			_, err := transfer.Verify(t.Context(), bytes.NewReader(sealed(moved)), transfer.ImportConfig{})
			if !errors.Is(err, transfer.ErrDamaged) {
				t.Errorf("err = %v", err)
			}
			twice := append(append([]string{}, lines[:at+1]...), lines[at:]...)
			_, err = transfer.Verify(t.Context(), bytes.NewReader(sealed(twice)), transfer.ImportConfig{})
			if !errors.Is(err, transfer.ErrDamaged) {
				t.Errorf("twice: err = %v", err)
			}
		})
	}
}

// Topics stand in order, too, each with what belongs to it.
func TestRefusesTopicsInAnotherOrder(t *testing.T) {
	e := memory(t)
	for _, topic := range []string{silent, towers} {
		n := notification(topic, 9, 8)
		must(t, e.Target.PutTopics(t.Context(), []delivery.TopicState{{Topic: topic, First: 10, Head: 9, Last: lastOf(n)}}))
	}
	lines := split(export(t, e))
	lines[1], lines[2] = lines[2], lines[1]
	_, err := transfer.Verify(t.Context(), bytes.NewReader(sealed(lines)), transfer.ImportConfig{})
	if !errors.Is(err, transfer.ErrDamaged) || !strings.HasPrefix(err.Error(), "line 3: ") {
		t.Errorf("err = %v", err)
	}
}

// Nothing is written for a stream that is no export, or one of another version.
func TestRefusesAHeader(t *testing.T) {
	header := `{"kind":"header","format":"carillon export","version":1,"exported":"2026-11-20T12:00:00Z","hub":"1","engine":"x"}` + "\n"
	for name, test := range map[string]struct {
		stream string
		want   error
	}{
		"nothing":         {"", transfer.ErrNotExport},
		"another file":    {"PK\x03\x04\n", transfer.ErrNotExport},
		"other lines":     {`{"loc":"https://a.example/"}` + "\n", transfer.ErrNotExport},
		"another format":  {strings.Replace(header, "carillon export", "carillon import", 1), transfer.ErrNotExport},
		"no header":       {`{"kind":"ping","topic":"a"}` + "\n", transfer.ErrNotExport},
		"a later version": {strings.Replace(header, `"version":1`, `"version":5,"compressed":true`, 1), transfer.ErrVersion},
		"a first version": {strings.Replace(header, `"version":1`, `"version":0`, 1), transfer.ErrVersion},
		"another field":   {strings.Replace(header, `"version":1`, `"version":1,"zip":true`, 1), transfer.ErrDamaged},
		"half a header":   {header[:30], transfer.ErrCutOff},
	} {
		t.Run(name, func(t *testing.T) {
			to := memory(t)
			_, err := transfer.Import(t.Context(), strings.NewReader(test.stream), to, transfer.ImportConfig{Merge: true})
			if !errors.Is(err, test.want) || !strings.HasPrefix(err.Error(), "line 1: ") {
				t.Errorf("err = %v; want %v on line 1", err, test.want)
			}
			empty, err := to.Target.Empty(t.Context())
			if err != nil || !empty {
				t.Errorf("something was written (%v)", err)
			}
		})
	}
}

// A stream that ends anywhere before its end is cut off.
func TestRefusesACutOffStream(t *testing.T) {
	from := memory(t)
	fill(t, from, 2)
	stream := export(t, from)
	for length := 1; length < len(stream); length += 97 {
		_, err := transfer.Verify(t.Context(), bytes.NewReader(stream[:length]), transfer.ImportConfig{})
		if !errors.Is(err, transfer.ErrCutOff) {
			t.Fatalf("after %d bytes: %v", length, err)
		}
	}
	if _, err := transfer.Verify(t.Context(), bytes.NewReader(stream[:len(stream)-1]), transfer.ImportConfig{}); !errors.Is(err, transfer.ErrCutOff) {
		t.Errorf("without the last newline: %v", err)
	}
	for _, more := range []string{"\n", "x", "{}\n"} {
		_, err := transfer.Verify(t.Context(), strings.NewReader(string(stream)+more), transfer.ImportConfig{})
		if !errors.Is(err, transfer.ErrDamaged) {
			t.Errorf("with %q behind it: %v", more, err)
		}
	}
}

// A byte that changed is noticed wherever it is.
func TestRefusesAFlippedByte(t *testing.T) {
	from := memory(t)
	fill(t, from, 2)
	stream := export(t, from)
	for at := 0; at < len(stream); at += 97 + at%31 {
		damaged := bytes.Clone(stream)
		damaged[at] ^= 1
		if _, err := transfer.Verify(t.Context(), bytes.NewReader(damaged), transfer.ImportConfig{}); err == nil {
			t.Fatalf("byte %d, %q instead of %q, was not noticed", at, damaged[at], stream[at])
		}
	}
}

// A line has a bound, and so has a body.
func TestRefusesALongLine(t *testing.T) {
	from := memory(t)
	fill(t, from, 2)
	stream := export(t, from)
	_, err := transfer.Verify(t.Context(), bytes.NewReader(stream), transfer.ImportConfig{MaxBody: 100})
	if !errors.Is(err, transfer.ErrDamaged) || !strings.Contains(err.Error(), "body is too long") {
		t.Errorf("err = %v", err)
	}
	header, _, _ := bytes.Cut(stream, []byte("\n"))
	endless := io.MultiReader(bytes.NewReader(header), strings.NewReader("\n"), zeros{})
	_, err = transfer.Verify(t.Context(), endless, transfer.ImportConfig{MaxBody: 100})
	if !errors.Is(err, transfer.ErrDamaged) || !strings.HasPrefix(err.Error(), "line 2: ") || !strings.Contains(err.Error(), "a line of more than") {
		t.Errorf("err = %v", err)
	}
}

// zeros is a line without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
