package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

const topicURL = "https://source.example/change/"

func appendOne(ctx context.Context, db *pebblestore.DB, body string) error {
	p := delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte(body)}
	_, err := db.Log().Append(ctx, p, uuid.New(), time.Now())
	return err
}

// ofWAL reports whether the operation is a sync of the write-ahead log.
func ofWAL(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }

func isSync(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	}
	return false
}

// TestAppendsShareASync holds the first sync back until all others have been
// applied: they must then need one more, not one each.
func TestAppendsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		var syncs atomic.Int32
		gate := make(chan struct{})
		db := openOn(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && isSync(op) && ofWAL(op) {
				syncs.Add(1)
				<-gate
			}
			return nil
		})))
		armed.Store(true)
		const n = 100
		errs := make(chan error, n)
		for i := range n {
			go func() { errs <- appendOne(t.Context(), db, fmt.Sprint(i)) }()
		}
		synctest.Wait()
		if _, err := db.Log().Read(t.Context(), topicURL, n); err != nil {
			t.Errorf("while one syncs, not all %d were applied: %v", n, err)
		}
		if len(errs) > 0 {
			t.Errorf("an Append returned before its sync: %v", <-errs)
		}
		close(gate)
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := syncs.Load(); got > 3 {
			t.Errorf("%d appends took %d syncs, want at most 3", n, got)
		}
	})
}

// breakable is a disk whose writes of some kind fail once it is broken.
type breakable struct {
	*errorfs.FS
	broken atomic.Bool
}

func newBreakable(disk vfs.FS, breaks func(op errorfs.Op) bool, with error) *breakable {
	b := &breakable{}
	b.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if b.broken.Load() && breaks(op) {
			return with
		}
		return nil
	}))
	return b
}

// TestRepetitionWaitsForTheSync: a Source that repeats itself gets its answer only when the first
// publication is durable.
func TestRepetitionWaitsForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		gate := make(chan struct{})
		db := openOn(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && isSync(op) && ofWAL(op) {
				<-gate
			}
			return nil
		})))
		armed.Store(true)
		p := delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x"), From: "1", Until: "2"}
		receipts := make(chan delivery.Receipt, 2)
		for range 2 {
			go func() {
				receipt, err := db.Log().Append(t.Context(), p, uuid.New(), time.Now())
				if err != nil {
					t.Error(err)
				}
				receipts <- receipt
			}()
			synctest.Wait()
		}
		if len(receipts) > 0 {
			t.Errorf("answered before the sync: %+v", <-receipts)
		}
		close(gate)
		if first, second := <-receipts, <-receipts; first.ID != second.ID || first.Repeated == second.Repeated {
			t.Errorf("got %+v and %+v, want one notification and its repetition", first, second)
		}
	})
}

// TestHeadsWaitForTheSync: deliveries go up to the head. A notification delivered from a head that is
// lost in a kill would reach some subscribers only.
func TestHeadsWaitForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		gate := make(chan struct{})
		db := openOn(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && isSync(op) && ofWAL(op) {
				<-gate
			}
			return nil
		})))
		if err := appendOne(t.Context(), db, "durable"); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		if head, err := headOf(t.Context(), db, topicURL); head != 1 || err != nil {
			t.Errorf("got %d, error %v: nothing is to be waited for", head, err)
		}
		appended, heads := make(chan error, 1), make(chan delivery.Seq, 1)
		go func() { appended <- appendOne(t.Context(), db, "not durable") }()
		synctest.Wait()
		go func() {
			head, err := headOf(t.Context(), db, topicURL)
			if err != nil {
				t.Error(err)
			}
			heads <- head
		}()
		synctest.Wait()
		if len(heads) > 0 {
			t.Error("the head is told before the sync")
		}
		close(gate)
		if head, err := <-heads, <-appended; head != 2 || err != nil {
			t.Errorf("got %d, error %v", head, err)
		}
	})
}

// breaks are the ways in which a disk fails the write-ahead log.
func breaks() map[string]func(op errorfs.Op) bool {
	return map[string]func(op errorfs.Op) bool{
		"sync":  func(op errorfs.Op) bool { return ofWAL(op) && isSync(op) },
		"write": func(op errorfs.Op) bool { return ofWAL(op) && op.Kind == errorfs.OpFileWrite },
		"make": func(op errorfs.Op) bool {
			return ofWAL(op) && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite)
		},
		"directory": func(op errorfs.Op) bool { return !strings.Contains(filepath.Base(op.Path), ".") && isSync(op) },
	}
}

// brokenDiskEnv passes to a second process of this test which directory to use, and how its disk
// breaks.
const brokenDiskEnv = "PEBBLESTORE_TEST_BROKEN_DISK"

// TestBrokenDiskEndsTheProcess breaks the disk of a second process, which must end with status 1 and
// one line. Its acknowledged changes are there afterwards.
func TestBrokenDiskEndsTheProcess(t *testing.T) {
	if how, dir, ok := strings.Cut(os.Getenv(brokenDiskEnv), ":"); ok {
		appendUntilBroken(t, breaks()[how], dir)
		return
	}
	for how := range breaks() {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenDiskEndsTheProcess$")
			process.Env = append(os.Environ(), brokenDiskEnv+"="+how+":"+dir)
			var stdout, stderr strings.Builder
			process.Stdout, process.Stderr = &stdout, &stderr
			err := process.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("the process ended with %v, want status 1", err)
			}
			if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "input/output error") {
				t.Errorf("it said:\n%s\nwant one line with the cause", stderr.String())
			}
			db, err := pebblestore.Open(pebblestore.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer closeDB(t, db)
			acknowledged := delivery.Seq(strings.Count(stdout.String(), "ok\n"))
			if head, err := headOf(t.Context(), db, topicURL); head < acknowledged || acknowledged == 0 || err != nil {
				t.Errorf("head is %d, error %v; %d were acknowledged", head, err, acknowledged)
			}
		})
	}
}

// appendUntilBroken appends from several goroutines to a disk that breaks
// meanwhile, and says ok after each.
func appendUntilBroken(t *testing.T, how func(op errorfs.Op) bool, dir string) {
	b := newBreakable(vfs.Default, how, syscall.EIO)
	db, err := pebblestore.Open(pebblestore.Config{
		Dir: dir, FS: b, MemTableBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := appendOne(t.Context(), db, "before"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ok")
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if i == 50 {
				b.broken.Store(true)
			}
			// More than a memtable all together, so that Pebble changes
			// write-ahead logs.
			if err := appendOne(t.Context(), db, strings.Repeat(fmt.Sprint(i), 50_000)); err == nil {
				fmt.Println("ok")
			}
		})
	}
	wg.Wait()
}

// TestBrokenDisk breaks the disk under a store whose Fatal returns: every call reports that from then
// on, Fatal is called once, and acknowledged data is there afterwards.
func TestBrokenDisk(t *testing.T) {
	for name, breaks := range breaks() {
		if name == "make" || name == "directory" {
			continue // these befall a store that must be ended
		}
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			b := newBreakable(disk, breaks, syscall.EIO)
			var told atomic.Int32
			db, err := pebblestore.Open(pebblestore.Config{
				Dir: "var/store", FS: b, MemTableBytes: 1 << 20, Fatal: func(error) { told.Add(1) },
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				if err := appendOne(t.Context(), db, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			running := make(chan error, 1)
			gained := make(chan struct{}, subscription.Shards)
			go func() {
				running <- db.Shards().Run(t.Context(), holder{gained: func(delivery.Tenure) error {
					gained <- struct{}{}
					return nil
				}})
			}()
			for range subscription.Shards {
				<-gained
			}
			b.broken.Store(true)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					err := appendOne(t.Context(), db, fmt.Sprint(i))
					if !errors.Is(err, subscription.ErrUnavailable) {
						t.Errorf("append on the broken disk: got error %v", err)
					}
				})
			}
			wg.Wait()
			if err := <-running; !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("Shards.Run: got error %v", err)
			}
			if _, err := headOf(t.Context(), db, topicURL); !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("Head: got error %v", err)
			}
			if got := told.Load(); got != 1 {
				t.Errorf("Fatal was called %d times", got)
			}
			_ = db.Close() // what it returns depends on how far Pebble got
			again := openOn(t, disk.CrashClone(vfs.CrashCloneCfg{}))
			if head, err := headOf(t.Context(), again, topicURL); head != 5 || err != nil {
				t.Errorf("after a restart head is %d, error %v; want 5", head, err)
			}
		})
	}
}

// TestFullDisk fills the disk and makes room again.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		b := newBreakable(disk, func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate
		}, syscall.ENOSPC)
		db := openOn(t, b)
		if err := appendOne(t.Context(), db, "before"); err != nil {
			t.Fatal(err)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
		b.broken.Store(true)
		underWay := make(chan error, 1)
		go func() { underWay <- appendOne(t.Context(), db, "under way") }()
		synctest.Wait()
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1})

		err := appendOne(t.Context(), db, "refused")
		if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "full") {
			t.Errorf("while the disk is full: got error %v", err)
		}
		if _, err := db.Pings().Fetched(t.Context(), delivery.Ping{Topic: topic.Parse(topicURL)}); !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("Fetched while the disk is full: got error %v", err)
		}
		if _, err := db.Log().Read(t.Context(), topicURL, 1); err != nil {
			t.Errorf("Read while the disk is full: %v", err)
		}
		time.Sleep(time.Minute)
		select {
		case err := <-underWay:
			t.Fatalf("the append under way returned %v without room", err)
		default:
		}

		b.broken.Store(false)
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
		if err := <-underWay; err != nil {
			t.Errorf("the append under way: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := appendOne(t.Context(), db, "after"); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
		if head, err := headOf(t.Context(), db, topicURL); head != 3 || err != nil {
			t.Errorf("head is %d, error %v; want 3", head, err)
		}
	})
}

// TestCloseOnAFullDisk must return.
func TestCloseOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		b := newBreakable(disk, func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite }, syscall.ENOSPC)
		db, err := pebblestore.Open(pebblestore.Config{Dir: "store", FS: b, Fatal: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
		b.broken.Store(true)
		underWay := make(chan error, 1)
		go func() { underWay <- appendOne(t.Context(), db, "under way") }()
		synctest.Wait()
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1})
		_ = db.Close()
		if err := <-underWay; !errors.Is(err, subscription.ErrUnavailable) {
			t.Errorf("the append under way: got error %v", err)
		}
	})
}

// TestLowSpace refuses what grows the store, and nothing else.
func TestLowSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		db := openOn(t, disk)
		request := subscription.Request{ID: subscription.NewID(topicURL, "https://destination.example/"), Token: uuid.New()}
		other := subscription.Request{ID: subscription.NewID(topicURL, "https://other.example/"), Token: uuid.New()}
		pings, err := db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
		if err := errors.Join(err, appendOne(t.Context(), db, "x"), db.Subscriptions().Submit(t.Context(), request),
			db.Subscriptions().Submit(t.Context(), other)); err != nil {
			t.Fatal(err)
		}
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: pebblestore.DefaultMinFree - 1})
		time.Sleep(time.Minute)

		_, err = db.Pings().Ping(t.Context(), []topic.Address{topic.Parse(topicURL)})
		sub := subscription.Subscription{ID: request.ID}
		for name, err := range map[string]error{
			"Append": appendOne(t.Context(), db, "x"), "Ping": err,
			"Submit": db.Subscriptions().Submit(t.Context(), request),
		} {
			if !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("%s: got error %v, want %v", name, err, subscription.ErrUnavailable)
			}
		}
		_, fetched := db.Pings().Fetched(t.Context(), pings[0])
		_, trimmed := db.Log().Trim(t.Context(), topicURL, 2, time.Now())
		_, shrunk := db.Log().Shrink(t.Context(), topicURL, 0, delivery.MaxSeq, time.Now())
		_, removed := db.Subscriptions().Remove(t.Context(), sub)
		for name, err := range map[string]error{
			"Fetched": fetched, "Remove": removed,
			"Drop":     db.Subscriptions().Drop(t.Context(), other),
			"Activate": db.Subscriptions().Activate(t.Context(), request, sub),
			"Save":     db.Cursors().Save(t.Context(), nil),
			"Trim":     trimmed, "Shrink": shrunk,
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}

		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: pebblestore.DefaultMinFree})
		time.Sleep(time.Minute)
		if err := appendOne(t.Context(), db, "x"); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
	})
}

// TestCloseWaits for an iteration that is under way, whose own calls are refused
// from then on.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openOn(t, vfs.NewMem())
		if err := appendOne(t.Context(), db, "x"); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		for _, err := range db.Log().Topics(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			go func() { closeDB(t, db); close(closed) }()
			synctest.Wait()
			select {
			case <-closed:
				t.Fatal("Close did not wait")
			default:
			}
			if _, err := headOf(t.Context(), db, topicURL); !errors.Is(err, subscription.ErrUnavailable) {
				t.Errorf("a call after Close: got error %v", err)
			}
		}
		<-closed
	})
}
