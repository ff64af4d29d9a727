package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/topic"
)

// deliveryHarness is an empty store on the shared server.
func deliveryHarness(t *testing.T) deliverytest.Harness { return deliveryHarnessOn(newWorld(t)) }

func deliveryHarnessOn(w *world) deliverytest.Harness {
	parts := func() deliverytest.Parts {
		return deliverytest.Parts{
			Log: w.db.Log(), Pings: w.db.Pings(), Cursors: w.db.Cursors(), Shards: w.db.Shards(),
			Subscriptions: w.db.Subscriptions(),
		}
	}
	return deliverytest.Harness{
		Parts:  parts(),
		Reopen: func(t *testing.T) deliverytest.Parts { w.reopen(t); return parts() },
		Crash:  func(t *testing.T) deliverytest.Parts { w.crash(t); return parts() },
		Stop:   func(t *testing.T) { w.stop(t) },
	}
}

func TestLog(t *testing.T) { deliverytest.RunLog(t, deliveryHarness) }

// TestSummariesReadNoBody: neither the process nor the server sends or copies one.
func TestSummariesReadNoBody(t *testing.T) {
	w := ownWorld(t)
	parts := deliveryHarnessOn(w)
	deliverytest.RunSummaries(t, 1<<20, func(*testing.T) deliverytest.Harness { return parts }, func(t *testing.T) int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.TotalAlloc) + int64(traffic(t, w, "total_net_output_bytes"))
	})
	if got := calls(t, w, func() { wantListed(t, w.db, "https://source.example/a/change/", 8) }); got["evalsha"]+got["eval"] > 0 {
		t.Errorf("the list took scripts, which see bodies: %v", got)
	}
}

// wantListed checks that the list of a topic's log reports what reading it does.
func wantListed(t *testing.T, db *redisstore.DB, topic string, want int) {
	t.Helper()
	all := readAll(t, db, topic)
	list, err := db.Log().Summaries(t.Context(), topic, 0, 100)
	must(t, err)
	if len(all) != want || len(list) != want {
		t.Fatalf("%d are read and %d listed, want %d", len(all), len(list), want)
	}
	slices.Reverse(list)
	for i, n := range all {
		want := delivery.Summary{
			Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted,
			ContentType: n.ContentType, From: n.From, Until: n.Until, Bytes: int64(len(n.Body)),
		}
		if list[i] != want {
			t.Errorf("listed is %+v, want %+v", list[i], want)
		}
	}
}

// TestDamagedSummaries: an unreadable summary is read from the log itself, and logged and left out
// where that is damaged, too.
func TestDamagedSummaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := publish(t, w.db, topicURL, 1).Seq
	times, log := keyOf(t, w, "times"), keyOf(t, w, "log")
	restore := func(seq delivery.Seq, note, summary, after string) {
		id := fmt.Sprintf("%d-0", seq)
		w.server.Do(t, "XADD", times, id, "t", "1", "s", "5", "n", summary, "a", after)
		w.server.Do(t, "XADD", log, id, "a", after, "m", note, "b", "body")
	}
	note := encodedNote(t, "body")
	before := fmt.Sprint(uint64(first))
	restore(first+1, note, "rubbish", before)
	restore(first+2, "rubbish", "rubbish", before)
	restore(first+3, note, "1:1", "x")
	restore(first+4, note, "", before)
	w.server.Do(t, "XADD", times, fmt.Sprintf("%d-7", first+5), "t", "1")
	w.server.Do(t, "XADD", times, fmt.Sprintf("%d-0", first+6), "t", "1")
	wantListed(t, w.db, topicURL, 3)
	for from, want := range map[delivery.Seq]delivery.Seq{first + 1: first + 1, first + 2: first + 4, first + 4: first + 4} {
		if s, err := w.db.Log().Summary(t.Context(), topicURL, from); err != nil || s.Seq != want || s.Bytes != 4 {
			t.Errorf("from %d: got %+v, error %v; want %d", from, s, err, want)
		}
	}
	_, err := w.db.Log().Summary(t.Context(), topicURL, first+5)
	wantError(t, err, delivery.ErrEndOfLog)
	if list, err := w.db.Log().Summaries(t.Context(), topicURL, 0, 1); err != nil || len(list) != 1 || list[0].Seq != first+4 {
		t.Errorf("the latest is %+v, error %v", list, err)
	}
}

// encodedNote is the record of a notification of the topic.
func encodedNote(t *testing.T, body string) string {
	t.Helper()
	return redisstore.EncodeNote(delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte(body)}, uuid.New(), begin)
}

func TestGreatBody(t *testing.T) { deliverytest.RunBody(t, greatBody, deliveryHarness) }

const topicURL = "https://source.example/change/"

// begin is when the tests' notifications are accepted, each a second later.
var begin = time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.UTC)

// second is a notification of the n-th second of the topic.
func second(topicURL string, n int) delivery.Publication {
	return delivery.Publication{
		Topic: topic.Parse(topicURL), ContentType: "application/xml", Body: fmt.Appendf(nil, "<urlset>%d</urlset>", n),
		From: strconv.Itoa(n), Until: strconv.Itoa(n + 1),
	}
}

// publish appends the n-th second.
func publish(t *testing.T, db *redisstore.DB, topic string, n int) delivery.Receipt {
	t.Helper()
	receipt, err := db.Log().Append(t.Context(), second(topic, n), uuid.New(), begin.Add(time.Duration(n)*time.Second))
	must(t, err)
	return receipt
}

// readAll reads a topic's log from its beginning.
func readAll(t *testing.T, db *redisstore.DB, topic string) (all []*delivery.Notification) {
	t.Helper()
	for from := delivery.Seq(0); ; {
		n, err := db.Log().Read(t.Context(), topic, from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			return all
		}
		must(t, err)
		all = append(all, n)
		from = n.Seq + 1
	}
}

// seqs are the numbers of what readAll reads.
func seqs(t *testing.T, db *redisstore.DB, topic string) (all []delivery.Seq) {
	t.Helper()
	for _, n := range readAll(t, db, topic) {
		all = append(all, n.Seq)
	}
	return all
}

// states lists the topics, without what is measured of their logs.
func states(t *testing.T, db *redisstore.DB) map[string]delivery.TopicState {
	t.Helper()
	all := make(map[string]delivery.TopicState)
	for state, err := range db.Log().Topics(t.Context()) {
		must(t, err)
		state.Bytes, state.Oldest = 0, time.Time{}
		all[state.Topic] = state
	}
	return all
}

// bytesOf is what the log of the topic says that it takes.
func bytesOf(t *testing.T, db *redisstore.DB, topic string) int64 {
	t.Helper()
	for state, err := range db.Log().Topics(t.Context()) {
		must(t, err)
		if state.Topic == topic {
			return state.Bytes
		}
	}
	return 0
}

// trim trims a log that must not fail.
func trim(t *testing.T, l *redisstore.Log, topic string, before delivery.Seq, olderThan time.Time) {
	t.Helper()
	_, err := l.Trim(t.Context(), topic, before, olderThan)
	must(t, err)
}

// keyOf finds the one key of the server's store that ends in name.
func keyOf(t *testing.T, w *world, name string) string {
	t.Helper()
	var found []string
	for _, key := range w.server.Do(t, "KEYS", prefixOf(w)+":*:"+name).([]any) {
		found = append(found, key.(string))
	}
	if len(found) != 1 {
		t.Fatalf("%d keys end in %s: %v", len(found), name, found)
	}
	return found[0]
}

// calls counts the commands that the server carries out while f runs, those in
// scripts too.
func calls(t *testing.T, w *world, f func()) map[string]int {
	t.Helper()
	w.server.Do(t, "CONFIG", "RESETSTAT")
	f()
	counts := make(map[string]int)
	for line := range strings.Lines(w.server.Do(t, "INFO", "commandstats").(string)) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found || name == "config|resetstat" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		count, err := strconv.Atoi(number)
		must(t, err)
		counts[name] = count
	}
	return counts
}

func TestAPublishIsAConstantNumberOfCommands(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	publish(t, w.db, topicURL, 0)
	want := calls(t, w, func() { publish(t, w.db, topicURL, 1) })
	total := 0
	for _, n := range want {
		total += n
	}
	if want["evalsha"] != 1 || total > 8 {
		t.Fatalf("a publish is %v, want one script and 8 commands in all", want)
	}
	for n := range 1000 {
		publish(t, w.db, topicURL, n+2)
	}
	for n := range 1000 {
		publish(t, w.db, fmt.Sprint(topicURL, n), 0)
	}
	if got := calls(t, w, func() { publish(t, w.db, topicURL, 5000) }); !maps.Equal(got, want) {
		t.Errorf("with 1,001 topics and as many notifications it is %v, want %v", got, want)
	}
	got := calls(t, w, func() {
		for n := range 1000 {
			publish(t, w.db, fmt.Sprint(topicURL, n), 1)
		}
	})
	for name, count := range want {
		if got[name] != 1000*count {
			t.Errorf("1,000 publishes are %d %s, want 1000 times %d", got[name], name, count)
		}
	}
}

func TestAfterARestartTheLogGoesOnWithoutAGap(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	first, second := publish(t, w.db, topicURL, 1), publish(t, w.db, topicURL, 2)
	if second.Seq != first.Seq+1 {
		t.Fatalf("numbers %d and %d, want them consecutive under one server", first.Seq, second.Seq)
	}
	w.crash(t)
	third := publish(t, w.db, topicURL, 3)
	fourth := publish(t, w.db, topicURL, 4)
	if third.Seq <= second.Seq || fourth.Seq != third.Seq+1 || third.Previous != "3" {
		t.Fatalf("after the restart: %+v and %+v, after %+v", third, fourth, second)
	}
	before := delivery.Seq(0)
	for i, n := range readAll(t, w.db, topicURL) {
		if n.After != before {
			t.Errorf("notification %d is after %d, want %d", i, n.After, before)
		}
		before = n.Seq
	}
	if before != fourth.Seq {
		t.Errorf("the last that can be read is %d, want %d", before, fourth.Seq)
	}
}

// copyFiles copies a directory of files, without what is in it already.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// TestNoNumberIsGivenTwice takes from the server what it had acknowledged.
func TestNoNumberIsGivenTwice(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *redistest.Server, old string){
		"emptied": func(t *testing.T, s *redistest.Server, _ string) { s.Empty(t) },
		"older files": func(t *testing.T, s *redistest.Server, old string) {
			copyFiles(t, old, filepath.Join(s.Dir(), "appendonlydir"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ownWorld(t)
			old := filepath.Join(t.TempDir(), "old")
			given := make(map[delivery.Seq]bool)
			counts := make(map[uint64]bool)
			give := func(n int) {
				receipt := publish(t, w.db, topicURL, n)
				for seq := range given {
					if receipt.Seq <= seq {
						t.Fatalf("number %d is given after %d", receipt.Seq, seq)
					}
				}
				given[receipt.Seq] = true
				ping, err := w.db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
				must(t, err)
				for count := range counts {
					if ping[0].Count <= count {
						t.Fatalf("count %d is given after %d", ping[0].Count, count)
					}
				}
				counts[ping[0].Count] = true
			}
			for round := range 3 {
				give(10 * round)
				w.server.Kill(t)
				copyFiles(t, filepath.Join(w.server.Dir(), "appendonlydir"), old)
				w.server.Restart(t)
				for n := range 5 {
					give(10*round + n + 1)
					if n == 3 {
						w.server.Do(t, "SCRIPT", "FLUSH")
					}
				}
				w.server.Kill(t)
				lose(t, w.server, old)
				w.server.Restart(t)
			}
			give(100)
		})
	}
}

func TestMemoryFull(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	publish(t, w.db, topicURL, 1)
	publish(t, w.db, topicURL, 2)
	dump := func() []any {
		return []any{
			w.server.Do(t, "XRANGE", keyOf(t, w, "log"), "-", "+"), w.server.Do(t, "XRANGE", keyOf(t, w, "times"), "-", "+"),
			w.server.Do(t, "HGETALL", keyOf(t, w, "head")), w.server.Do(t, "SMEMBERS", keyOf(t, w, "topics")),
		}
	}
	before := dump()
	w.server.Set(t, "maxmemory", "1")
	_, err := w.db.Log().Append(t.Context(), second(topicURL, 3), uuid.New(), begin)
	wantError(t, err, delivery.ErrUnavailable)
	_, err = w.db.Log().Append(t.Context(), second(topicURL+"new", 3), uuid.New(), begin)
	wantError(t, err, delivery.ErrUnavailable)
	_, err = w.db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
	wantError(t, err, delivery.ErrUnavailable)
	if got := dump(); !reflect.DeepEqual(got, before) {
		t.Errorf("a refused append has left\n%v\nof\n%v", got, before)
	}
	trim(t, w.db.Log(), topicURL, delivery.MaxSeq, begin.Add(time.Hour))
	if left := readAll(t, w.db, topicURL); len(left) != 0 {
		t.Errorf("Trim has left %d notifications", len(left))
	}
	w.server.Set(t, "maxmemory", "0")
	if got := publish(t, w.db, topicURL, 3); got.Previous != "3" {
		t.Errorf("afterwards: got %+v, want it after 3", got)
	}
}

func TestTrimGoesInSteps(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	const n = 1000
	for i := range n {
		publish(t, w.db, topicURL, i)
	}
	head := states(t, w.db)[topicURL].Head
	got := calls(t, w, func() {
		trim(t, w.db.Log(), topicURL, head, begin.Add(time.Hour))
	})
	if got["evalsha"]+got["eval"] < 4 {
		t.Errorf("%d notifications went in %d scripts, want at most 256 in each", n, got["evalsha"]+got["eval"])
	}
	if left := seqs(t, w.db, topicURL); !slices.Equal(left, []delivery.Seq{head}) {
		t.Errorf("left are %v, want %d alone", left, head)
	}
	if length := w.server.Do(t, "XLEN", keyOf(t, w, "times")); length != int64(1) {
		t.Errorf("the times of %d notifications are kept, want 1", length)
	}
}

// wantBytes checks that a log with so many entries takes what they say.
func wantBytes(t *testing.T, w *world, entries int) {
	t.Helper()
	var sum int64
	times := w.server.Do(t, "XRANGE", keyOf(t, w, "times"), "-", "+").([]any)
	for _, entry := range times {
		fields := entry.([]any)[1].([]any)
		size, err := strconv.ParseInt(fields[3].(string), 10, 64)
		must(t, err)
		sum += size
	}
	if got := bytesOf(t, w.db, topicURL); got != sum || len(times) != entries {
		t.Errorf("%d entries take %d bytes; want %d and %d", len(times), got, entries, sum)
	}
	if left := w.server.Do(t, "HEXISTS", keyOf(t, w, "head"), "bytes-new"); left != int64(0) {
		t.Error("the count of a log that was made anew is left")
	}
}

// TestEntriesOfBefore that do not say what they take: they count for nothing, and go
// as others do.
func TestEntriesOfBefore(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	for i := range 3 {
		publish(t, w.db, topicURL, i)
	}
	head, times := keyOf(t, w, "head"), keyOf(t, w, "times")
	entries := w.server.Do(t, "XRANGE", times, "-", "+").([]any)
	w.server.Do(t, "DEL", times)
	w.server.Do(t, "HDEL", head, "bytes")
	for _, entry := range entries {
		fields := entry.([]any)[1].([]any)
		w.server.Do(t, "XADD", times, entry.([]any)[0].(string), "t", fields[1].(string))
	}
	if got := bytesOf(t, w.db, topicURL); got != 0 {
		t.Errorf("they take %d bytes", got)
	}
	wantListed(t, w.db, topicURL, 3)
	last := publish(t, w.db, topicURL, 3).Seq
	one := bytesOf(t, w.db, topicURL)
	if one == 0 {
		t.Error("the next one takes nothing")
	}
	later := begin.Add(time.Hour)
	if went, err := w.db.Log().Shrink(t.Context(), topicURL, one, delivery.MaxSeq, later); err != nil || went.Notifications != 0 {
		t.Errorf("%+v went, error %v; want none", went, err)
	}
	went, err := w.db.Log().Trim(t.Context(), topicURL, last-1, later)
	if want := (delivery.Trimmed{Notifications: 2}); went != want || err != nil {
		t.Errorf("%+v went, error %v; want %+v", went, err, want)
	}
	went, err = w.db.Log().Shrink(t.Context(), topicURL, one-1, delivery.MaxSeq, later)
	if want := (delivery.Trimmed{Notifications: 2, Bytes: one}); went != want || err != nil {
		t.Errorf("%+v went, error %v; want %+v", went, err, want)
	}
	if got := bytesOf(t, w.db, topicURL); got != 0 {
		t.Errorf("nothing takes %d bytes", got)
	}
	// Records of another program there do no harm.
	w.server.Do(t, "HSET", head, "bytes", "many")
	publish(t, w.db, topicURL, 4)
	if got := bytesOf(t, w.db, topicURL); got != one {
		t.Errorf("after a count that is none: %d, want %d", got, one)
	}
}

func TestTopicsReadsNoBody(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	p := second(topicURL, 1)
	p.Body = make([]byte, 1<<20)
	for range 3 {
		_, err := w.db.Log().Append(t.Context(), p, uuid.New(), begin)
		must(t, err)
		p.Until += "0"
	}
	sent := func() int { return traffic(t, w, "total_net_output_bytes") }
	before := sent()
	if got := states(t, w.db)[topicURL]; got.First == 0 || got.Head != got.First+2 {
		t.Errorf("got %+v, want three kept", got)
	}
	trim(t, w.db.Log(), topicURL, delivery.MaxSeq, begin)
	if bytes := sent() - before; bytes > 100_000 {
		t.Errorf("the server sent %d bytes", bytes)
	}
}

func TestABodyThatIsTooGreat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := delivery.Publication{Topic: topic.Parse(topicURL), Body: make([]byte, 256<<20+1)}
	_, err := w.db.Log().Append(t.Context(), p, uuid.New(), begin)
	var tooLong *http.MaxBytesError
	if !errors.As(err, &tooLong) || tooLong.Limit != 256<<20 || errors.Is(err, delivery.ErrUnavailable) {
		t.Fatalf("got error %v, want one that names the limit", err)
	}
	if got := states(t, w.db); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

func TestWhatIsNotOfTheHubIsPassedOver(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	metrics := prometheus.NewRegistry()
	w.cfg.Registerer = metrics
	db := w.open(t)
	first := publish(t, db, topicURL, 1).Seq
	log := keyOf(t, w, "log")
	second := publish(t, db, topicURL, 2)
	// The last one comes back without a part of its body.
	number := fmt.Sprintf("%d-0", second.Seq)
	fields := w.server.Do(t, "XRANGE", log, number, number).([]any)[0].([]any)[1].([]any)
	w.server.Do(t, "XDEL", log, number)
	w.server.Do(t, "XSETID", log, fmt.Sprintf("%d-0", first))
	w.server.Do(t, "XADD", log, number, "a", fields[1].(string), "m", fields[3].(string), "b", "cut off")
	third := publish(t, db, topicURL, 3).Seq
	w.server.Do(t, "XADD", log, fmt.Sprintf("%d-7", third+1), "a", "0", "m", fields[3].(string), "b", fields[5].(string))
	for range 2 {
		if got := seqs(t, db, topicURL); !slices.Equal(got, []delivery.Seq{first, third}) {
			t.Fatalf("read %v, want %d and %d", got, first, third)
		}
	}
	wantMetric(t, metrics, "carillon_redis_damaged_records_total", 2)
}

// wantMetric checks a counter without labels.
func wantMetric(t *testing.T, metrics *prometheus.Registry, name string, want float64) {
	t.Helper()
	families, err := metrics.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			if got := family.GetMetric()[0].GetCounter().GetValue(); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
			return
		}
	}
	t.Errorf("there is no metric %s", name)
}

func TestATopicIsListedAgainThoughTheSetOfTopicsWasLost(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	publish(t, w.db, topicURL, 1)
	w.server.Do(t, "DEL", keyOf(t, w, "topics"))
	w.crash(t)
	head := publish(t, w.db, topicURL, 2).Seq
	if got := states(t, w.db)[topicURL].Head; got != head {
		t.Errorf("the topic is listed with head %d, want %d", got, head)
	}
}

func TestADamagedTopicIsLeftOut(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	publish(t, w.db, topicURL, 1)
	w.server.Do(t, "HSET", keyOf(t, w, "head"), "last", "no id")
	publish(t, w.db, topicURL+"other", 1)
	if got := states(t, w.db); len(got) != 1 || got[topicURL+"other"].Head == 0 {
		t.Errorf("listed are %v, want the other alone", got)
	}
}

func TestThereAreNoNumbersAboveTheHighest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: delivery.MaxSeq - 1<<26 - 1}}))
	if got := publish(t, w.db, topicURL, 1).Seq; got != delivery.MaxSeq {
		t.Fatalf("got %d, want %d", got, delivery.MaxSeq)
	}
	_, err := w.db.Log().Append(t.Context(), second(topicURL, 2), uuid.New(), begin)
	if err == nil || errors.Is(err, delivery.ErrUnavailable) {
		t.Fatalf("got error %v, want one for good", err)
	}
	if got := seqs(t, w.db, topicURL); !slices.Equal(got, []delivery.Seq{delivery.MaxSeq}) {
		t.Errorf("the log has %v", got)
	}
	_, err = w.db.Log().Read(t.Context(), topicURL, math.MaxUint64)
	wantError(t, err, delivery.ErrEndOfLog)
}
