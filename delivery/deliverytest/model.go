package deliverytest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/delivery"
)

// logModel is what a topic's log must be like after any row of calls.
type logModel struct {
	topic string
	log   delivery.Log
	all   []delivery.Notification // by number, beginning with 1; trimmed ones stay
	first delivery.Seq            // the oldest that is kept
}

// testLogModel makes random rows of calls, each on a topic of its own, and compares
// the log with the model after each call.
func testLogModel(t *testing.T, open Open) {
	h := open(t)
	log := h.Log
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := &logModel{topic: fmt.Sprintf("https://source.example/model/%d/", round), log: log, first: 1}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { m.append(t, rt) },
			"trim":   func(rt *rapid.T) { m.trim(t, rt) },
			"read":   func(rt *rapid.T) { m.read(t, rt, m.number(rt, "from")) },
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "really") == 0 {
					log = h.Reopen(t).Log
					m.log = log
					m.untrim(t, rt)
				}
			},
			"": func(rt *rapid.T) { m.check(t, rt) },
		})
	})
}

func (m *logModel) head() delivery.Seq { return delivery.Seq(len(m.all)) }

// number draws one around those that there are.
func (m *logModel) number(rt *rapid.T, label string) delivery.Seq {
	return delivery.Seq(rapid.IntRange(0, len(m.all)+2).Draw(rt, label))
}

func (m *logModel) append(t *testing.T, rt *rapid.T) {
	n := delivery.Notification{ID: uuid.New(), Seq: m.head() + 1}
	n.Accepted = start.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "accepted")) * time.Second)
	n.Topic = m.topic
	n.Body = []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "body"))
	n.From = rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "from")
	n.Until = rapid.SampledFrom([]string{"", "2", "3"}).Draw(rt, "until")
	want := delivery.Receipt{ID: n.ID, Seq: n.Seq}
	if len(m.all) > 0 {
		last := m.all[len(m.all)-1]
		want.Previous = last.Until
		if n.From != "" && n.Until != "" && n.From == last.From && n.Until == last.Until && string(n.Body) == string(last.Body) {
			want = delivery.Receipt{ID: last.ID, Seq: last.Seq, Repeated: true}
			if len(m.all) > 1 {
				want.Previous = m.all[len(m.all)-2].Until
			}
		}
	}
	got, err := m.log.Append(t.Context(), n.Publication, n.ID, n.Accepted)
	if err != nil || got != want {
		rt.Fatalf("Append: got %+v, error %v; want %+v", got, err, want)
	}
	if !want.Repeated {
		m.all = append(m.all, n)
	}
}

func (m *logModel) trim(t *testing.T, rt *rapid.T) {
	before := m.number(rt, "before")
	olderThan := start.Add(time.Duration(rapid.IntRange(0, 6).Draw(rt, "olderThan")) * time.Second)
	if err := m.log.Trim(t.Context(), m.topic, before, olderThan); err != nil {
		rt.Fatal(err)
	}
	for m.first <= m.head() && m.first < before && m.all[m.first-1].Accepted.Before(olderThan) {
		m.first++
	}
}

func (m *logModel) read(t *testing.T, rt *rapid.T, from delivery.Seq) {
	got, err := m.log.Read(t.Context(), m.topic, from)
	want := max(from, m.first)
	if want > m.head() {
		if !errors.Is(err, delivery.ErrEndOfLog) {
			rt.Fatalf("Read from %d: got %+v, error %v; want the end of the log", from, got, err)
		}
		return
	}
	if err != nil {
		rt.Fatalf("Read from %d: %v", from, err)
	}
	n := m.all[want-1]
	if got.Seq != n.Seq || got.ID != n.ID || string(got.Body) != string(n.Body) || !got.Accepted.Equal(n.Accepted) {
		rt.Fatalf("Read from %d: got %+v, want %+v", from, got, n)
	}
}

// untrim takes back what a restart has undone: Trim need not be durable.
func (m *logModel) untrim(t *testing.T, rt *rapid.T) {
	got, err := m.log.Read(t.Context(), m.topic, 0)
	switch {
	case err == nil && got.Seq <= m.first:
		m.first = got.Seq
	case !errors.Is(err, delivery.ErrEndOfLog) || m.first <= m.head():
		rt.Fatalf("after a restart: got %+v, error %v; want one up to %d", got, err, m.first)
	}
}

func (m *logModel) check(t *testing.T, rt *rapid.T) {
	heads, err := m.log.Heads(t.Context(), []string{m.topic})
	if err != nil || len(heads) != 1 || heads[0] != m.head() {
		rt.Fatalf("heads are %d, error %v; want %d", heads, err, m.head())
	}
	m.read(t, rt, 0)
}
