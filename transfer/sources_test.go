package transfer_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"carillon/source"
	"carillon/transfer"
)

// wantSources checks that exactly these are registered.
func wantSources(t *testing.T, e transfer.Engine, want ...source.Source) {
	t.Helper()
	all, err := e.Sources.List(t.Context())
	must(t, err)
	if len(all) != len(want) {
		t.Fatalf("there are %d Sources, want %d", len(all), len(want))
	}
	for i := range all {
		if !all[i].Same(want[i]) {
			t.Errorf("Source %v, want %v", all[i], want[i])
		}
	}
}

// Sources are carried by the hashes of their tokens, and no token is in the stream.
func TestSourcesAreCarried(t *testing.T) {
	from, to := memory(t), memory(t)
	one, token, err := source.New("one", []string{"https://a.example/x"}, noon)
	must(t, err)
	must(t, from.Sources.Add(t.Context(), one))
	stream := export(t, from)
	if bytes.Contains(stream, []byte(token)) {
		t.Error("the stream has the token")
	}
	if s := load(t, to, stream); s.Sources != 1 || s.Total() != 1 {
		t.Errorf("imported were %s", s.Counts)
	}
	wantSources(t, to, one)
	if _, err := transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{}); !errors.Is(err, transfer.ErrNotEmpty) {
		t.Errorf("a target with a Source alone was taken for empty: %v", err)
	}
}

// A merge puts the Source of the stream in the place of the one of its name.
func TestSourcesAreMerged(t *testing.T) {
	from, to := memory(t), memory(t)
	must(t, from.Sources.Add(t.Context(), registered(1)))
	other, only := registered(1), registered(2)
	other.TokenHash = source.Token("another").Hash()
	must(t, to.Sources.Add(t.Context(), other))
	must(t, to.Sources.Add(t.Context(), only))
	must(t, mergeInto(t, to, export(t, from)))
	wantSources(t, to, registered(1), only)
}

// A stream of version 1, which had no Sources, is still taken.
func TestVersion1IsTaken(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 5)
	for i := range 3 {
		must(t, from.Sources.Delete(t.Context(), registered(i).Name))
	}
	lines := split(export(t, from))
	lines[0] = strings.Replace(lines[0], `"version":4`, `"version":1`, 1)
	last := len(lines) - 1
	if !strings.Contains(lines[0], `"version":1`) || !strings.Contains(lines[last], `,"sources":0`) {
		t.Fatalf("the stream is not what this test knows: %s %s", lines[0], lines[last])
	}
	lines[last] = strings.Replace(lines[last], `,"sources":0`, "", 1)
	if s := load(t, to, sealed(lines)); s.Subscriptions == 0 {
		t.Errorf("imported were %s", s.Counts)
	}
	equalStreams(t, export(t, to), export(t, from))
}

// A stream of version 2, which had no replays, is still taken: the subscriptions then have no replay.
func TestVersion2IsTaken(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 5)
	lines := split(export(t, from))
	lines[0] = strings.Replace(lines[0], `"version":4`, `"version":2`, 1)
	replays := regexp.MustCompile(`,"(replay_next|replay_last|replayed)":("[^"]*"|\d+)`)
	left := 0
	for i, line := range lines {
		lines[i] = replays.ReplaceAllString(line, "")
		left += len(line) - len(lines[i])
	}
	if left == 0 || !strings.Contains(lines[0], `"version":2`) {
		t.Fatalf("the stream is not what this test knows: %s", lines[0])
	}
	load(t, to, sealed(lines))
	again := split(export(t, to))
	again[0] = lines[0]
	equalStreams(t, sealed(again), sealed(lines))
}

// A stream of version 3, whose requests had neither starts nor verify tokens, is still taken.
func TestVersion3IsTaken(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 5)
	lines := split(export(t, from))
	lines[0] = strings.Replace(lines[0], `"version":4`, `"version":3`, 1)
	added := regexp.MustCompile(`,"(verify_token|since|start)":("[^"]*"|\{[^}]*\}|\d+)`)
	left := 0
	for i, line := range lines {
		if strings.HasPrefix(line, `{"kind":"request"`) {
			lines[i] = added.ReplaceAllString(line, "")
			left += len(line) - len(lines[i])
		}
	}
	if left == 0 || !strings.Contains(lines[0], `"version":3`) {
		t.Fatalf("the stream is not what this test knows: %s", lines[0])
	}
	load(t, to, sealed(lines))
	again := split(export(t, to))
	again[0] = lines[0]
	equalStreams(t, sealed(again), sealed(lines))
}
