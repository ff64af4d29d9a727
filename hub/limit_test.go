package hub_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
)

// TestGateTakesLong: however soon a place turns slow, and however full those beside
// are, each is given back once.
func TestGateTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 100
		gate := hub.NewGate(places, places, 1, time.Nanosecond)
		enterAll := func() (leave []func()) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range places {
				wg.Go(func() {
					one, err := hub.Enter(gate, t.Context(), "example.com")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					leave = append(leave, one)
				})
			}
			wg.Wait()
			return leave
		}
		for range 2 {
			leave := enterAll()
			time.Sleep(10 * time.Nanosecond)
			for _, one := range leave {
				one()
			}
		}
	})
}
