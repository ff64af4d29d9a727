// Package await waits: for a time, for another goroutine, or for the end of a context.
package await

import (
	"context"
	"time"
)

// For waits for d. It returns early, with the error of ctx, when ctx ends.
func For(ctx context.Context, d time.Duration) error {
	_, err := Until(ctx, d, nil)
	return err
}

// Until waits for d, or until wake receives, and reports whether it did. It returns early, with
// the error of ctx, when ctx ends.
func Until(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-wake:
		return true, nil
	case <-timer.C:
		return false, nil
	}
}

// AfterFunc calls f in its own goroutine when ctx ends, as context.AfterFunc does. The caller must
// call stop, which prevents the call, or waits until f has returned if it has begun.
func AfterFunc(ctx context.Context, f func()) (stop func()) {
	returned := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(returned)
		f()
	})
	return func() {
		if !undo() {
			<-returned
		}
	}
}

// Wake ends the wait of the goroutine that receives from wake, or its next wait. The channel holds
// one value, so that Wake never blocks.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // a value is there already
	}
}
