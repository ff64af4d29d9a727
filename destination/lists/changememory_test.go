package lists_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"carillon/destination/lists"
	"carillon/payload"
)

const changeMemory = "https://hub.example/websub/memory?topic=https%3A%2F%2Fsource.example%2Fchange%2F"

// newMemoryNetwork is the memory of a hub by what it is asked from; "" is without from.
func newMemoryNetwork(t *testing.T, pages map[string]page) *network {
	w := newNetwork(t, nil)
	for from, p := range pages {
		uri := changeMemory
		if from != "" {
			uri = "https://hub.example/websub/memory?from=" + strings.ReplaceAll(payload.FormatDatetime(at(from)), ":", "%3A") +
				"&topic=https%3A%2F%2Fsource.example%2Fchange%2F"
		}
		w.put(uri, p)
	}
	return w
}

func memoryPages() map[string]page {
	return map[string]page{
		"":      {body: urlset(changed("10:00", "11:00"), change("a", "10:10"), change("b", "10:20"))},
		"10:15": {body: urlset(changed("10:15", "11:00"), change("b", "10:20"))},
		"11:00": {body: urlset(changed("11:00", "12:00"), change("c", "11:10"))},
		"12:00": {body: urlset(changed("12:00", "12:00")), header: map[string]string{"ETag": `"12"`}},
	}
}

// A memory is asked page after page, up to one that has nothing; the Source, to which
// it links, is not asked.
func TestMemory(t *testing.T) {
	w := newMemoryNetwork(t, memoryPages())
	c := w.client(lists.Config{})
	for _, tt := range []struct {
		since, want string
		documents   int
		unchanged   bool
	}{
		{"", "a b c", 3, false},
		{"10:15", "b c", 3, false},
		{"11:00", "c", 2, false},
		{"12:00", "", 1, true}, // it was read before
	} {
		got, covered, err := visits(t, c, changeMemory, tt.since)
		if got != tt.want || err != nil {
			t.Errorf("since %s: visited %q, want %q: %v", tt.since, got, tt.want, err)
		}
		if !covered.Until.Equal(at("12:00")) || covered.Open || covered.Documents != tt.documents || covered.Unchanged != tt.unchanged {
			t.Errorf("since %s: covered %+v", tt.since, covered)
		}
	}
}

// One whose address does not show what it is.
func TestMemoryByAnotherName(t *testing.T) {
	w := newNetwork(t, map[string]page{
		"https://hub.example/old?from=2026-03-01T10%3A15%3A00.000000Z": {body: urlset(changed("10:15", "11:00"), change("b", "10:20"))},
		"https://hub.example/old?from=2026-03-01T11%3A00%3A00.000000Z": {body: urlset(changed("11:00", "11:00"))},
	})
	var got []string
	covered, err := w.client(lists.Config{}).ChangeMemory(t.Context(), "https://hub.example/old", at("10:15"), func(e payload.Entry) error {
		got = append(got, e.Loc)
		return nil
	})
	if err != nil || len(got) != 1 || !covered.Until.Equal(at("11:00")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
}

// The part before a hole counts; the next reading from there returns the hole.
func TestAHoleInTheMemory(t *testing.T) {
	pages := memoryPages()
	pages["11:00"] = page{status: http.StatusGone, header: map[string]string{"X-Hub-Memory-Earliest": clock("11:30")}}
	w := newMemoryNetwork(t, pages)
	c := w.client(lists.Config{})
	if got, covered, err := visits(t, c, changeMemory, "10:15"); got != "b" || err != nil || !covered.Until.Equal(at("11:00")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	_, covered, err := visits(t, c, changeMemory, "11:00")
	if gone, ok := errors.AsType[*lists.GoneError](err); !ok || !gone.Earliest.Equal(at("11:30")) || !covered.Until.Equal(at("11:00")) {
		t.Errorf("covered %+v, %v", covered, err)
	}
}

// A memory that never says that there is nothing more is not asked for ever.
func TestMemoryThatDoesNotGetOn(t *testing.T) {
	pages := memoryPages()
	pages["12:00"] = page{body: urlset(changed("12:00", "12:00"), change("d", "12:00"))}
	w := newMemoryNetwork(t, pages)
	if got, covered, err := visits(t, w.client(lists.Config{}), changeMemory, "11:00"); got != "c d" || err != nil || covered.Documents != 2 {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	pages["12:00"] = page{body: urlset(changed("12:00", "23:00"))} // in a future, by the hub's own clock
	p := pages["12:00"]
	p.header = map[string]string{"Date": "Sun, 01 Mar 2026 12:05:00 GMT"}
	pages["12:00"] = p
	w = newMemoryNetwork(t, pages)
	if _, covered, err := visits(
		t, w.client(lists.Config{}), changeMemory, "11:00",
	); err != nil || !covered.Until.Equal(at("12:05")) || covered.Documents != 2 {
		t.Errorf("covered %+v, %v", covered, err)
	}
}
