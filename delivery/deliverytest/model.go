package deliverytest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/topic"
)

// logModel is what a topic's log must be like after any row of calls.
type logModel struct {
	topic string
	log   delivery.Log
	all   []delivery.Notification // in order; trimmed ones stay
	first int                     // which is the oldest that is kept; len(all) for none
}

// testLogModel makes random rows of calls, each on a topic of its own, and compares
// the log with the model after each call.
func testLogModel(t *testing.T, open Open) {
	h := open(t)
	log := h.Log
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := &logModel{topic: fmt.Sprintf("https://source.example/model/%d/", round), log: log}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { m.checkAppend(t, rt) },
			"trim":   func(rt *rapid.T) { m.trim(t, rt) },
			"shrink": func(rt *rapid.T) { m.shrink(t, rt) },
			"read":   func(rt *rapid.T) { m.checkRead(t, rt, m.number(rt, "from")) },
			"list":   func(rt *rapid.T) { m.checkList(t, rt) },
			"topics": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "really") == 0 { // it goes through the topics of all rounds
					m.checkTopics(t, rt)
				}
			},
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

func (m *logModel) lastSeq() delivery.Seq {
	if len(m.all) == 0 {
		return 0
	}
	return m.all[len(m.all)-1].Seq
}

// number draws one around those that there are.
func (m *logModel) number(rt *rapid.T, label string) delivery.Seq {
	i := rapid.IntRange(-1, len(m.all)+1).Draw(rt, label)
	switch {
	case i < 0:
		return 0
	case i < len(m.all):
		return m.all[i].Seq
	}
	return m.lastSeq() + delivery.Seq(i-len(m.all)+1)
}

func (m *logModel) checkAppend(t *testing.T, rt *rapid.T) {
	n := delivery.Notification{ID: uuid.New(), After: m.lastSeq()}
	n.Accepted = start.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "accepted")) * time.Second)
	n.Topic = topic.Parse(m.topic)
	n.Body = []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "body"))
	n.From = rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "from")
	n.Until = rapid.SampledFrom([]string{"", "2", "3"}).Draw(rt, "until")
	want := delivery.Receipt{ID: n.ID}
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
	if !want.Repeated && got.Seq > m.lastSeq() {
		n.Seq, want.Seq = got.Seq, got.Seq
	}
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
	went, err := m.log.Trim(t.Context(), m.topic, before, olderThan)
	if err != nil {
		rt.Fatal(err)
	}
	was := m.first
	for m.first < len(m.all) && m.all[m.first].Seq < before && m.all[m.first].Accepted.Before(olderThan) {
		m.first++
	}
	if went.Notifications != m.first-was {
		rt.Fatalf("Trim: %d went, want %d", went.Notifications, m.first-was)
	}
}

// shrink takes away some of what the log takes by its own word.
func (m *logModel) shrink(t *testing.T, rt *rapid.T) {
	state := m.checkState(t, rt)
	keep := state.Bytes * int64(rapid.IntRange(0, 8).Draw(rt, "keep")) / 7
	olderThan := start.Add(time.Duration(rapid.IntRange(0, 6).Draw(rt, "olderThan")) * time.Second)
	before := m.number(rt, "before")
	went, err := m.log.Shrink(t.Context(), m.topic, keep, before, olderThan)
	if err != nil {
		rt.Fatal(err)
	}
	left := m.checkState(t, rt).Bytes
	if state.Bytes-left != went.Bytes {
		rt.Fatalf("Shrink: %+v went of %d, and %d are left", went, state.Bytes, left)
	}
	for range went.Notifications {
		if n := m.all[m.first]; n.Seq >= before || !n.Accepted.Before(olderThan) {
			rt.Fatalf("Shrink: number %d went, which is not older", n.Seq)
		}
		m.first++
	}
	if m.first < len(m.all) && left > keep && m.all[m.first].Seq < before && m.all[m.first].Accepted.Before(olderThan) {
		rt.Fatalf("Shrink: %d bytes are left, want at most %d", left, keep)
	}
}

func (m *logModel) checkRead(t *testing.T, rt *rapid.T, from delivery.Seq) {
	got, err := m.log.Read(t.Context(), m.topic, from)
	want := m.first
	for want < len(m.all) && m.all[want].Seq < from {
		want++
	}
	if want == len(m.all) {
		if !errors.Is(err, delivery.ErrEndOfLog) {
			rt.Fatalf("Read from %d: got %+v, error %v; want the end of the log", from, got, err)
		}
		return
	}
	if err != nil {
		rt.Fatalf("Read from %d: %v", from, err)
	}
	if s, err := m.log.Summary(t.Context(), m.topic, from); err != nil || !sameSummary(s, summaryOf(got)) {
		rt.Fatalf("Summary from %d: got %+v, error %v; want that of %+v", from, s, err, got)
	}
	n := m.all[want]
	if got.Seq != n.Seq || got.After != n.After || got.ID != n.ID || string(got.Body) != string(n.Body) || !got.Accepted.Equal(n.Accepted) {
		rt.Fatalf("Read from %d: got %+v, want %+v", from, got, n)
	}
}

// checkState checks the log's state of the topic.
func (m *logModel) checkState(t *testing.T, rt *rapid.T) delivery.TopicState {
	state, err := m.log.State(t.Context(), m.topic)
	if err != nil || state.Head != m.lastSeq() {
		rt.Fatalf("State: got %+v, error %v; want the head %d", state, err, m.lastSeq())
	}
	return state
}

// checkTopics compares the topic's part of the list of all with its own state.
func (m *logModel) checkTopics(t *testing.T, rt *rapid.T) {
	if got, want := stateOf(t, m.log, m.topic), m.checkState(t, rt); m.lastSeq() > 0 && got != want {
		rt.Fatalf("among all topics it is %+v, alone %+v", got, want)
	}
}

// checkList compares a part of the list of notifications.
func (m *logModel) checkList(t *testing.T, rt *rapid.T) {
	before, limit := m.number(rt, "before"), rapid.IntRange(0, 6).Draw(rt, "limit")
	var want []delivery.Summary
	for i := len(m.all) - 1; i >= m.first && len(want) < limit; i-- {
		if before == 0 || m.all[i].Seq < before {
			want = append(want, summaryOf(&m.all[i]))
		}
	}
	got, err := m.log.Summaries(t.Context(), m.topic, before, limit)
	if err != nil || !slices.EqualFunc(got, want, sameSummary) {
		rt.Fatalf("the latest %d below %d: got %+v, error %v; want %+v", limit, before, got, err, want)
	}
}

// untrim takes back what a restart has undone: Trim need not be durable.
func (m *logModel) untrim(t *testing.T, rt *rapid.T) {
	got, err := m.log.Read(t.Context(), m.topic, 0)
	switch {
	case err == nil:
		back := slices.IndexFunc(m.all, func(n delivery.Notification) bool { return n.Seq == got.Seq })
		if back < 0 || back > m.first {
			rt.Fatalf("after a restart: got %+v; want one that was kept, or had been", got)
		}
		m.first = back
	case !errors.Is(err, delivery.ErrEndOfLog) || m.first < len(m.all):
		rt.Fatalf("after a restart: error %v; want number %d at most", err, m.all[m.first].Seq)
	}
}

func (m *logModel) check(t *testing.T, rt *rapid.T) {
	heads, err := m.log.Heads(t.Context(), []string{m.topic})
	if err != nil || len(heads) != 1 || heads[0] != m.lastSeq() {
		rt.Fatalf("heads are %d, error %v; want %d", heads, err, m.lastSeq())
	}
	m.checkRead(t, rt, 0)
	bodies := 0
	for _, n := range m.all[m.first:] {
		bodies += len(n.Body)
	}
	if err := counted(m.checkState(t, rt).Bytes, len(m.all)-m.first, bodies); err != nil {
		rt.Fatal(err)
	}
}
