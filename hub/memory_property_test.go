package hub_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/payload"
	"carillon/topic"
)

// TestMemoryProperty: whatever a log keeps, with holes, other content, jumps of numbers and
// bodies of any size, who reads on from each until gets every change of what is covered once
// and in order, and no document covers a hole; only a hole, or what is not kept, is 410.
func TestMemoryProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, model := drawLog(rt, t)
		m := newRemembering(t, log, nil)
		from := minute(0).Add(time.Duration(rapid.IntRange(-60, 1200).Draw(rt, "from")) * time.Second)
		for documents := 0; ; documents++ {
			log.calls = 0
			w := m.ask(since(told(from)))
			if log.calls > 150 {
				rt.Fatalf("%d calls of the log", log.calls)
			}
			switch w.Code {
			case http.StatusGone:
				earliest, err := payload.ParseDatetime(w.Header().Get("X-Hub-Memory-Earliest"))
				if err != nil || !earliest.Equal(model.nextFrom(from)) || model.covers(from) {
					rt.Fatalf("from %s: 410, earliest %s", from, earliest)
				}
				from = earliest
			case http.StatusOK:
				d := readDocument(t, w.Body)
				if d.From != told(from) || len(d.entries) > payload.MaxEntries {
					rt.Fatalf("from %s: it begins at %s, with %d changes", from, d.From, len(d.entries))
				}
				if d.UntilTime.Equal(from) {
					if model.end().After(from) || len(d.entries) > 0 {
						rt.Fatalf("from %s: nothing newer, with %d changes; there is more until %s", from, len(d.entries), model.end())
					}
					return
				}
				model.check(rt, from, d)
				from = d.UntilTime
			default:
				rt.Fatalf("status %d %s", w.Code, w.Body)
			}
			if documents > 2*len(log.notes)+2 {
				rt.Fatal("it does not come to an end")
			}
		}
	})
}

// oneDocument is how much one is made of, at most, but for one notification.
const oneDocument = 2_400_000

// memoryModel is what was published, in order.
type memoryModel []modelled

type modelled struct {
	from, until time.Time
	at          []time.Time
	size        int64
}

func drawLog(rt *rapid.T, t *testing.T) (*fakeLog, memoryModel) {
	log, model := &fakeLog{}, memoryModel{}
	seq, now := delivery.Seq(0), minute(0)
	for range rapid.IntRange(1, 25).Draw(rt, "notifications") {
		seq += delivery.Seq(rapid.SampledFrom([]int{1, 1, 1, 2, 700, 1 << 40}).Draw(rt, "jump"))
		size := int64(rapid.SampledFrom([]int{500, 500, 1_000_000, 30_000_000}).Draw(rt, "size"))
		if rapid.IntRange(0, 5).Draw(rt, "other content") == 0 {
			log.add(seq, delivery.Publication{Topic: topic.Parse(memoryTopic), Body: []byte("x")}, size)
			continue
		}
		if rapid.IntRange(0, 7).Draw(rt, "hole") == 0 {
			now = now.Add(time.Minute)
		}
		until := now.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
		var at []time.Time
		for when := now; when.Before(until) && len(at) < 3; when = when.Add(7 * time.Second) {
			at = append(at, when)
		}
		log.add(seq, wroteOf(t, now, until, memoryList, at...), size)
		model = append(model, modelled{now, until, at, size})
		now = until
	}
	if len(model) == 0 {
		log.add(seq+1, wroteOf(t, now, now.Add(time.Second), ""), 500)
		model = append(model, modelled{now, now.Add(time.Second), nil, 500})
	}
	return log, model
}

func (m memoryModel) end() time.Time { return m[len(m)-1].until }

func (m memoryModel) covers(at time.Time) bool {
	for _, n := range m {
		if !at.Before(n.from) && at.Before(n.until) {
			return true
		}
	}
	return false
}

// nextFrom is when the first begins that begins after a time.
func (m memoryModel) nextFrom(at time.Time) time.Time {
	for _, n := range m {
		if n.from.After(at) {
			return n.from
		}
	}
	return time.Time{}
}

// check compares a document with what was published from its from to its until.
func (m memoryModel) check(rt *rapid.T, from time.Time, d document) {
	var want, got []time.Time
	covered, size, seam := from, int64(0), int64(0)
	for _, n := range m {
		if n.until.Equal(from) {
			seam = n.size // it may have a change of that moment
		}
		if n.from.Equal(from) && seam+n.size <= oneDocument {
			size = seam
		}
		if n.from.Equal(d.UntilTime) && size+n.size <= oneDocument {
			rt.Fatalf("the document from %s ends at %s, with %d bytes; %d more follow without a hole", from, d.Until, size, n.size)
		}
		if !n.until.After(from) || !n.from.Before(d.UntilTime) {
			continue
		}
		size += n.size
		if n.from.After(covered) {
			rt.Fatalf("the document from %s until %s bridges the hole before %s", from, d.Until, n.from)
		}
		covered = n.until
		for _, at := range n.at {
			if !at.Before(from) {
				want = append(want, at)
			}
		}
	}
	if !covered.Equal(d.UntilTime) {
		rt.Fatalf("until is %s, and the last notification ends at %s", d.Until, covered)
	}
	for _, e := range d.entries {
		got = append(got, e.Datetime)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		rt.Fatalf("from %s until %s: changes of %v, want %v", from, d.Until, got, want)
	}
}

// FuzzMemory: whatever is asked of the memory, the answer is one of the few that it has.
func FuzzMemory(f *testing.F) {
	m := newRemembering(f, nil, nil)
	m.minutes(0, 3)
	topic := "topic=" + url.QueryEscape(memoryTopic)
	f.Add(topic+"&from=2026-05-01T12:00:30Z", "gzip", "*")
	f.Add(topic+"&from=2026-05-01", "identity;q=0", `"x"`)
	f.Add(topic, "", "")
	f.Add("topic=x;from=y&%zz", "gzip;q", "")
	f.Fuzz(func(t *testing.T, query, accept, match string) {
		r := httptest.NewRequest(http.MethodGet, "/websub/memory", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.URL.RawQuery = query
		r.Header.Set("Accept-Encoding", accept)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		m.handler.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			if w.Header().Get("Content-Encoding") == "" {
				readDocument(t, w.Body)
			}
		case http.StatusNotModified:
		default:
			checkAnswer(t, w, 400, 404, 410)
		}
	})
}
