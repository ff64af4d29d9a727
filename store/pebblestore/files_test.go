package pebblestore_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestNoFilesForAWhile: while no file can be opened, because the process has as many
// open as it may, the store takes in what fits its memory, keeps what it acknowledged,
// and goes on by itself.
func TestNoFilesForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none atomic.Bool
		var refused atomic.Int32
		disk := vfs.NewMem()
		db := openOn(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpReuseForWrite, errorfs.OpOpenDir, errorfs.OpOpen:
				if none.Load() {
					refused.Add(1)
					return syscall.EMFILE
				}
			}
			return nil
		})))
		none.Store(true)
		body := strings.Repeat("x", 100<<10)
		ended := make(chan error, 1)
		go func() { // memtables of 1 MiB: each few of these need the next write-ahead log
			for i := range 60 {
				if err := appendOne(t.Context(), db, fmt.Sprint(i, body)); err != nil {
					ended <- fmt.Errorf("append %d: %w", i, err)
					return
				}
			}
			ended <- nil
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if refused.Load() == 0 {
			t.Error("no file was wanted: the test shows nothing")
		}
		none.Store(false)
		time.Sleep(time.Second)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if head, err := headOf(t.Context(), db, topicURL); head != 60 || err != nil {
			t.Errorf("%d appended, error %v", head, err)
		}
	})
}
