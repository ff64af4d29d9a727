package redisstore_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// layout is the table of docs/redis-keys.md: each pattern of keys with its type.
type layout map[*regexp.Regexp]string

var placeholders = strings.NewReplacer(
	"SHARD", `(0\d|[1-5]\d|6[0-3])`,
	"ID", `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"HASH", `[0-9a-f]{32}`,
	"UUID", `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"NAME", `[A-Za-z0-9._-]+:[0-9]+:[0-9a-f]{8}`,
)

// readLayout reads the table, for keys that begin with the prefix.
func readLayout(t *testing.T, prefix string) layout {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis-keys.md")
	must(t, err)
	rows := regexp.MustCompile("(?m)^\\| `PREFIX:([^`]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("the document has no table of keys")
	}
	l := make(layout)
	for _, row := range rows {
		_, section, found := strings.Cut(string(text), "\n### `"+row[1]+"`\n")
		if !found || strings.HasPrefix(strings.TrimSpace(section), "#") {
			t.Errorf("the document does not describe %s", row[1])
		}
		l[regexp.MustCompile("^"+regexp.QuoteMeta(prefix)+":"+placeholders.Replace(regexp.QuoteMeta(row[1]))+"$")] = row[2]
	}
	return l
}

// TestTheKeysAreAsDocumented holds docs/redis-keys.md against a store that has
// something of everything.
func TestTheKeysAreAsDocumented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	documented := readLayout(t, prefixOf(w))
	seen := make(map[*regexp.Regexp]bool)
	everything(t, w, func() { wantDocumented(t, w, documented, seen) })
	for pattern := range documented {
		if !seen[pattern] {
			t.Errorf("there is no key like %s", pattern)
		}
	}
}

// wantDocumented holds every key that there is against the table, and notes what it saw of that.
func wantDocumented(t *testing.T, w *world, documented layout, seen map[*regexp.Regexp]bool) {
	t.Helper()
	for _, entry := range w.server.Do(t, "KEYS", prefixOf(w)+":*").([]any) {
		key := entry.(string)
		kind := w.server.Do(t, "TYPE", key)
		known := false
		for pattern, want := range documented {
			if !pattern.MatchString(key) {
				continue
			}
			if known, seen[pattern] = true, true; kind != want {
				t.Errorf("%s is a %v, and documented as a %s", key, kind, want)
			}
		}
		if !known {
			t.Errorf("%s, a %v, is not documented", key, kind)
		}
		ttl := w.server.Do(t, "TTL", key).(int64)
		ends := strings.HasSuffix(key, ":questions") || strings.HasSuffix(key, ":answers")
		if ends && (ttl < 0 || ttl > 31) || !ends && ttl != -1 {
			t.Errorf("%s ends after %v seconds", key, ttl)
		}
	}
}

// everything puts something of every kind into the store, by what a hub calls, and looks
// at it while a process works on it.
func everything(t *testing.T, w *world, look func()) {
	t.Helper()
	work(t, w.db)
	must(t, submit(t, w.db))
	sub := granted(request(2))
	_, err := w.db.Log().Append(t.Context(), delivery.Publication{Topic: topic.Parse(sub.Topic), ContentType: "text/plain", Body: []byte("news")},
		uuid.New(), time.Now())
	must(t, err)
	_, err = w.db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(sub.Topic)})
	must(t, err)
	must(t, w.db.Sources().Add(t.Context(), source.Source{Name: "s", Prefixes: []string{sub.Topic}, Created: time.Now()}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	must(t, w.db.Shards().Run(ctx, &writer{t: t, w: w, sub: sub, stop: stop, look: func() { unheard(t, w); look() }}))
}

// unheard leaves an answer that comes too late, and a question that no process takes.
func unheard(t *testing.T, w *world) {
	t.Helper()
	asked, late := make(chan struct{}), make(chan struct{})
	end := serving(t, w.db, func(context.Context, []byte) []byte {
		close(asked)
		<-late
		return []byte("late")
	})
	other := w.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	nothing := func(_ string, answer []byte, err error) {
		if err == nil {
			t.Errorf("heard %q", answer)
		}
	}
	must(t, other.Peers().Ask(ctx, nil, nothing))
	close(late)
	end() // waits for the answer
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	must(t, other.Peers().Ask(ctx, nil, nothing))
}

// writer saves a gap and a mark in the shard of a subscription, looks, and ends.
type writer struct {
	t    *testing.T
	w    *world
	sub  subscription.Subscription
	look func()
	stop func()
}

func (h *writer) Gained(ctx context.Context, tenure delivery.Tenure) error {
	if tenure.Shard != subscription.ShardOf(h.sub.ID) {
		return nil
	}
	defer h.stop()
	gap := delivery.Gap{Subscription: h.sub.ID, First: 8, Last: 8, Reason: delivery.GapGivenUp, At: time.Now()}
	advance := delivery.Advance{Subscription: h.sub.ID, Position: delivery.Position{Settled: 8}}
	must(h.t, h.w.db.Cursors().Save(ctx, []delivery.Batch{{Tenure: tenure, Advances: []delivery.Advance{advance}, Gaps: []delivery.Gap{gap}}}))
	must(h.t, h.w.db.Marks().Mark(ctx, tenure, map[string]delivery.Seq{topic.Key(h.sub.Topic): 8}))
	h.look()
	return nil
}

func (h *writer) Lost(subscription.Shard)               {}
func (h *writer) Sure(time.Time, ...subscription.Shard) {}
