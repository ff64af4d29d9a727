package directory

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTold is how many files that cannot be read, or be resources, are remembered as logged; others are
// logged at each scan.
const maxTold = 1000

// loggedFiles remembers the files that have a log line.
type loggedFiles struct {
	log   *slog.Logger
	gauge prometheus.Gauge

	mu    sync.Mutex
	files map[string]uint64 // guarded by mu: the number of the scan with the latest log line
	scans uint64            // guarded by mu: their number
}

// once reports a file for as long as it is remembered.
func (t *loggedFiles) once(rel string, err error) {
	t.mu.Lock()
	_, known := t.files[rel]
	if known || len(t.files) < maxTold {
		t.files[rel] = t.scans
	}
	t.gauge.Set(float64(len(t.files)))
	t.mu.Unlock()
	if !known {
		t.log.Warn("something in the watched directory is passed over; what was announced of it stands",
			"file", cut(rel), "error", err)
	}
}

// forget forgets that there was something to tell of a file.
func (t *loggedFiles) forget(rel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.files, rel)
	t.gauge.Set(float64(len(t.files)))
}

// begin records that a scan begins.
func (t *loggedFiles) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scans++
}

// end forgets the files that neither this complete scan nor the one before came upon.
func (t *loggedFiles) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rel, last := range t.files {
		if last+1 < t.scans {
			delete(t.files, rel)
		}
	}
	t.gauge.Set(float64(len(t.files)))
}
