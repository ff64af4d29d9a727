package pebblestore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// flushDelay is how long the space of trimmed notifications may stay taken.
	flushDelay = 10 * time.Second
	// reportInterval bounds how often Pebble's background trouble is logged: it
	// retries at once and for ever.
	reportInterval = 10 * time.Second
)

// engineLog brings Pebble's log lines to the operator: chatter at debug level, trouble now and then,
// and failures that it cannot survive.
type engineLog struct {
	log  *slog.Logger
	fail func(error) error
	last atomic.Int64 // when trouble was last reported, Unix nanoseconds
}

// Infof is chat.
func (l *engineLog) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("engine", "says", fmt.Sprintf(format, args...))
	}
}

// Errorf is trouble that Pebble lives with.
func (l *engineLog) Errorf(format string, args ...any) {
	now := time.Now().UnixNano()
	last := l.last.Load()
	passed := now - last // less than 0: the clock was set back
	if 0 <= passed && passed < int64(reportInterval) || !l.last.CompareAndSwap(last, now) {
		return
	}
	l.log.Error("trouble with the store's engine", "error", fmt.Sprintf(format, args...))
}

// Fatalf is trouble that Pebble cannot live with.
func (l *engineLog) Fatalf(format string, args ...any) {
	_ = l.fail(fmt.Errorf(format, args...))
}

// inBackground hears of what Pebble tries again at once, and for ever. While the store
// is being opened that is the end of it.
func (e *engine) inBackground(log pebble.Logger) func(error) {
	return func(err error) {
		if !e.begun.Load() {
			_ = e.failHere(err)
		}
		log.Errorf("in the background: %v", err)
	}
}

// failHere is fail for errors at which Pebble would panic, or try again for ever. While the store is
// being opened it does not return, and no caller waits for it.
func (e *engine) failHere(err error) error {
	err = e.fail(err)
	if !e.begun.Load() {
		select {}
	}
	return err
}

// listener hears of the events that an operator should know.
func listener(log pebble.Logger) *pebble.EventListener {
	return &pebble.EventListener{
		// A bad block costs the records in it: readers pass them over. But compactions of its table fail from
		// now on.
		DataCorruption: func(info pebble.DataCorruptionInfo) { log.Errorf("%v", info) },
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Infof("writes wait for the engine: %s", info.Reason)
		},
	}
}
