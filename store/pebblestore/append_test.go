package pebblestore_test

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/topic"
)

// TestAppendSeesWhatElseChanged: the state that an append remembers of its topic follows every trim
// and restore, and is not that of another store.
func TestAppendSeesWhatElseChanged(t *testing.T) {
	disk := vfs.NewMem()
	first := openOn(t, disk)
	one := func(db *pebblestore.DB, topicURL string) delivery.Receipt {
		t.Helper()
		p := delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte("a body")}
		r, err := db.Log().Append(t.Context(), p, uuid.UUID{15: 1}, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, name := range []string{"trimmed", "restored", ""} {
		one(first, name)
	}
	if _, err := first.Log().Trim(t.Context(), "trimmed", 2, time.Unix(2e9, 0)); err != nil {
		t.Fatal(err)
	}
	one(first, "trimmed")
	one(first, "of one")
	size := make(map[string]int64)
	for s, err := range first.Log().Topics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		size[s.Topic] = s.Bytes
	}
	if got, want := size["trimmed"], size["of one"]+1; got != want { // the name has a letter more
		t.Errorf("a log of which one is left takes %d bytes, not %d", got, want)
	}
	if err := first.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: "restored", Head: 100}}); err != nil {
		t.Fatal(err)
	}
	if got := one(first, "restored").Seq; got != 101 {
		t.Errorf("number %d came after 100", got)
	}
	closeDB(t, first)
	if got := one(openOn(t, disk), "").Seq; got != 2 {
		t.Errorf("number %d came after 1, in a store opened anew", got)
	}
}

// TestAppendRemembersOnlySoMuch: there may be any number of topics.
func TestAppendRemembersOnlySoMuch(t *testing.T) {
	db := openOn(t, vfs.NewMem())
	for n := range 10_000 {
		p := delivery.Publication{Topic: topic.Parse(fmt.Sprint(n))}
		if _, err := db.Log().Append(t.Context(), p, uuid.UUID{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := db.RememberedTopics(); got == 0 || got > 8192 {
		t.Errorf("%d topics are remembered of 10,000", got)
	}
}

// publishers is how many append at the same time.
const publishers = 64

// BenchmarkAppend appends 1 KiB from many publishers, each to a topic of its own,
// beside bare Pebble with as many writers that sync each record.
func BenchmarkAppend(b *testing.B) {
	body := make([]byte, 1024)
	b.Run("hub", func(b *testing.B) {
		db, err := pebblestore.Open(pebblestore.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer closeDB(b, db)
		inParallel(b, func(writer int, _ uint64) error {
			p := delivery.Publication{
				Topic: topic.Parse(fmt.Sprintf("https://source.example/%d/change/", writer)), ContentType: "application/xml", Body: body,
			}
			_, err := db.Log().Append(b.Context(), p, uuid.New(), time.Now())
			return err
		})
	})
	b.Run("bare", func(b *testing.B) {
		db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: noLog{}})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		inParallel(b, func(_ int, n uint64) error {
			return db.Set(binary.BigEndian.AppendUint64(nil, n), body, pebble.Sync)
		})
	})
}

// inParallel has the publishers do it b.N times in all.
func inParallel(b *testing.B, do func(writer int, n uint64) error) {
	var n atomic.Uint64
	errs := make(chan error, publishers)
	b.ReportAllocs()
	b.ResetTimer()
	for writer := range publishers {
		go func() {
			for {
				i := n.Add(1)
				if i > uint64(b.N) {
					errs <- nil
					return
				}
				if err := do(writer, i); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	for range publishers {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// noLog is the log of a Pebble that says nothing.
type noLog struct{}

func (noLog) Infof(string, ...any)  {}
func (noLog) Errorf(string, ...any) {}
func (noLog) Fatalf(string, ...any) {}
