package main

import (
	"testing"
	"time"

	"carillon/internal/redistest"
)

// Strangers who ask /readyz cost the store one question a second, whatever the engine is.
func TestReadyzSparesTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for name, store := range map[string]string{"pebble": "pebble:" + t.TempDir(), "redis": redis.URL()} {
		t.Run(name, func(t *testing.T) {
			p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store)
			eventually(t, "readiness", p.isReady)
			before, begun := storeQuestions(t, p), time.Now()
			if before == 0 {
				t.Fatal("readiness asked the store nothing")
			}
			const requests = 300
			for range requests {
				if !p.isReady() {
					t.Fatal("it is not ready any more")
				}
			}
			// A slow machine gives the store more seconds, and not more for each request.
			most := 1 + int(time.Since(begun)/time.Second)
			if asked := storeQuestions(t, p) - before; asked > most {
				t.Errorf("%d requests asked the store %d times, want at most %d", requests, asked, most)
			}
		})
	}
}

// storeQuestions returns how often the store was asked for one subscription.
func storeQuestions(t *testing.T, p *process) int {
	t.Helper()
	return int(p.gauges(t)[`carillon_store_operation_duration_seconds_count{operation="subscriptions_get",outcome="ok"}`])
}
