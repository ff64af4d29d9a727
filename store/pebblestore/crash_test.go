package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// TestCrash pulls the plug while publications, subscriptions and cursors are being
// written. Whatever the disk kept of what was not synced: everything
// acknowledged is there, and the logs have no holes.
func TestCrash(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("%d%% of the unsynced, seed %d", percent, seed), func(t *testing.T) {
				crashOnce(t, percent, seed)
			})
		}
	}
}

// promises is what was acknowledged.
type promises struct {
	mu       sync.Mutex
	appended map[string]map[delivery.Seq]uuid.UUID // by topic
	active   map[subscription.ID]bool
	settled  map[subscription.ID]delivery.Seq
	pinged   map[string]uint64
	count    int
	enough   chan struct{} // closed when there are some
}

const (
	crashTopics  = 3
	crashWorkers = 4
	// promisesBeforeCrash is how many are made before the plug is pulled.
	promisesBeforeCrash = 150
)

func crashTopic(n int) string { return fmt.Sprintf("https://source.example/%d/", n%crashTopics) }

func (p *promises) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.count++; p.count == promisesBeforeCrash {
		close(p.enough)
	}
}

func crashOnce(t *testing.T, percent int, seed uint64) {
	disk := vfs.NewCrashableMem()
	db := openOn(t, disk)
	tenures := ownAll(t, db)
	p := &promises{
		appended: make(map[string]map[delivery.Seq]uuid.UUID), active: make(map[subscription.ID]bool),
		settled: make(map[subscription.ID]delivery.Seq), pinged: make(map[string]uint64),
		enough: make(chan struct{}),
	}
	for n := range crashTopics {
		p.appended[crashTopic(n)] = make(map[delivery.Seq]uuid.UUID)
	}
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for w := range crashWorkers {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := crashStep(t, db, tenures, p, w*1_000_000+i); err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	<-p.enough
	p.mu.Lock() // no promise is made between the look at them and the crash
	after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
	made := p.count
	kept := &promises{
		appended: map[string]map[delivery.Seq]uuid.UUID{}, active: map[subscription.ID]bool{},
		settled: map[subscription.ID]delivery.Seq{}, pinged: map[string]uint64{},
	}
	kept.copy(p)
	p.mu.Unlock()
	close(stop)
	workers.Wait()
	if made < promisesBeforeCrash {
		t.Fatalf("only %d promises were made", made)
	}
	checkPromises(t, openOn(t, after), kept)
}

func (p *promises) copy(from *promises) {
	for topic, seqs := range from.appended {
		p.appended[topic] = make(map[delivery.Seq]uuid.UUID)
		for seq, id := range seqs {
			p.appended[topic][seq] = id
		}
	}
	for id := range from.active {
		p.active[id] = true
	}
	for id, seq := range from.settled {
		p.settled[id] = seq
	}
	for topic, count := range from.pinged {
		p.pinged[topic] = count
	}
}

// ownAll takes every shard and gives the tenures.
func ownAll(t testing.TB, db *pebblestore.DB) map[subscription.Shard]delivery.Tenure {
	t.Helper()
	tenures := make(map[subscription.Shard]delivery.Tenure)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := db.Shards().Run(ctx, holder{gained: func(tenure delivery.Tenure) error {
		if tenures[tenure.Shard] = tenure; len(tenures) == subscription.Shards {
			stop()
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return tenures
}

// holder is a delivery.Holder of functions; lost may be nil.
type holder struct {
	gained func(delivery.Tenure) error
	lost   func(subscription.Shard)
}

func (h holder) Gained(_ context.Context, t delivery.Tenure) error { return h.gained(t) }

func (h holder) Lost(s subscription.Shard) {
	if h.lost != nil {
		h.lost(s)
	}
}

func (holder) Sure(time.Time, ...subscription.Shard) {}

// headOf is the head of one log.
func headOf(ctx context.Context, db *pebblestore.DB, topic string) (delivery.Seq, error) {
	heads, err := db.Log().Heads(ctx, []string{topic})
	if err != nil {
		return 0, err
	}
	return heads[0], nil
}

// crashStep publishes, and for every fourth publication subscribes and moves a
// cursor to it.
func crashStep(
	t *testing.T, db *pebblestore.DB, tenures map[subscription.Shard]delivery.Tenure, p *promises, n int,
) error {
	ctx, topicURL, id := t.Context(), crashTopic(n), uuid.New()
	receipt, err := db.Log().Append(ctx, delivery.Publication{Topic: topic.Parse(topicURL), Body: id[:]}, id, time.Now())
	if err != nil {
		return err
	}
	p.note(func() { p.appended[topicURL][receipt.Seq] = id })
	if n%4 > 0 {
		return nil
	}
	callback := fmt.Sprintf("https://destination.example/%d", n)
	r := subscription.Request{ID: subscription.NewID(topicURL, callback), Token: uuid.New(), Topic: topicURL, Callback: callback}
	sub := subscription.Subscription{ID: r.ID, Topic: topicURL, Callback: callback, Expires: time.Now()}
	if err := errors.Join(db.Subscriptions().Submit(ctx, r), db.Subscriptions().Activate(ctx, r, sub)); err != nil {
		return err
	}
	p.note(func() { p.active[r.ID] = true })
	err = db.Cursors().Save(ctx, []delivery.Batch{{
		Tenure:   tenures[subscription.ShardOf(r.ID)],
		Advances: []delivery.Advance{{Subscription: r.ID, Position: delivery.Position{Settled: receipt.Seq}}},
	}})
	if err != nil {
		return err
	}
	p.note(func() { p.settled[r.ID] = receipt.Seq })
	pings, err := db.Pings().Ping(ctx, []topic.Address{topic.Parse(topicURL)})
	if err != nil {
		return err
	}
	p.note(func() { p.pinged[topicURL] = max(p.pinged[topicURL], pings[0].Count) })
	return nil
}

func checkPromises(t *testing.T, db *pebblestore.DB, p *promises) {
	t.Helper()
	heads := make(map[string]delivery.Seq)
	for topic, seqs := range p.appended {
		heads[topic] = checkLog(t, db, topic, seqs)
	}
	for id := range p.active {
		if _, err := db.Subscriptions().Get(t.Context(), id); err != nil {
			t.Errorf("an active subscription: %v", err)
		}
	}
	for s := range subscription.Shard(subscription.Shards) {
		for m, err := range db.Cursors().Members(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			if m.Settled < p.settled[m.ID] {
				t.Errorf("%s stands at %d, was saved at %d", m.ID, m.Settled, p.settled[m.ID])
			}
			if m.Settled > heads[m.Topic] {
				t.Errorf("%s stands at %d, beyond the head %d", m.ID, m.Settled, heads[m.Topic])
			}
		}
	}
	waiting := make(map[string]uint64)
	for ping, err := range db.Pings().Waiting(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		waiting[ping.Topic.String()] = ping.Count
	}
	for topic, count := range p.pinged {
		if waiting[topic] < count {
			t.Errorf("the ping %d of %s is gone; %d waits", count, topic, waiting[topic])
		}
	}
}

// checkLog reads a log from 1 to its head.
func checkLog(t *testing.T, db *pebblestore.DB, topic string, promised map[delivery.Seq]uuid.UUID) delivery.Seq {
	t.Helper()
	head, err := headOf(t.Context(), db, topic)
	if err != nil {
		t.Fatal(err)
	}
	for seq := delivery.Seq(1); seq <= head; seq++ {
		n, err := db.Log().Read(t.Context(), topic, seq)
		if err != nil || n.Seq != seq || string(n.Body) != string(n.ID[:]) {
			t.Fatalf("%s at %d: %+v, error %v", topic, seq, n, err)
		}
		if id, ok := promised[seq]; ok && id != n.ID {
			t.Errorf("%s at %d: %s, was acknowledged as %s", topic, seq, n.ID, id)
		}
		delete(promised, seq)
	}
	if len(promised) > 0 {
		t.Errorf("%s: %d acknowledged notifications are lost: %v", topic, len(promised), promised)
	}
	return head
}
