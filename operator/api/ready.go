package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// checkTimeout bounds one readiness check: a check that hangs has failed.
const checkTimeout = 3 * time.Second

// Check is one thing that must work before the hub can accept and deliver.
type Check struct {
	// Name is what the check looks at, as /readyz shows it: "store".
	Name string
	// Ready returns nil, or what is wrong in words an operator can act on.
	Ready func(context.Context) error
}

// Run returns what the check says, within checkTimeout. It runs in a goroutine of its own,
// because a check that ignores its context must not hold the answer.
func (c Check) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Ready(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %s", checkTimeout)
	}
}

// healthz says that the process lives. It does no work: a store that is away
// must not get the process killed.
func healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") }

type readyz struct {
	checks   []Check
	warnings func() []string // may be nil
	auth     *Auth           // may be nil
}

// report is the answer of /readyz in JSON.
type report struct {
	Checks   []result `json:"checks"`
	Ready    bool     `json:"ready"`
	Warnings []string `json:"warnings,omitempty"`
}

// result is the outcome of one check, as /readyz gives it in JSON.
type result struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

func (h readyz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	results, status := h.run(r.Context())
	var warnings []string
	told := h.auth == nil || h.auth.judge(r) == welcome // a wrong token counts, here as elsewhere
	if told && h.warnings != nil {
		warnings = h.warnings()
	}
	if !told {
		for i := range results {
			results[i].Error = ""
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(
			report{results, status == http.StatusOK, warnings},
		) // the client is gone: the answer has no reader
		return
	}
	var lines []string
	for _, res := range results {
		if !res.Ready {
			lines = append(lines, res.Name+": "+cmp.Or(res.Error, "not ready"))
		}
	}
	if len(lines) == 0 {
		lines = []string{"ready"}
	}
	for _, warning := range warnings {
		lines = append(lines, "warning: "+warning)
	}
	plain(w, status, strings.Join(lines, "\n"))
}

func (h readyz) run(ctx context.Context) ([]result, int) {
	results, status := make([]result, len(h.checks)), http.StatusOK
	for i, c := range h.checks {
		results[i] = result{Name: c.Name, Ready: true}
		if err := c.Run(ctx); err != nil {
			results[i].Ready, results[i].Error = false, err.Error()
			status = http.StatusServiceUnavailable
		}
	}
	return results, status
}

// recentFor is for how long an answer of Recent holds.
const recentFor = time.Second

// Recent shares the answer of a check among all that ask. /readyz answers strangers, so a check
// that costs something must not run for each request. The zero value is ready for use.
type Recent struct {
	mu   sync.Mutex
	last *checkRun // guarded by mu; nil: there was no question yet
}

// checkRun is what one run of a check returned.
type checkRun struct {
	began time.Time
	ended chan struct{} // closed when err is set
	err   error
}

// Ask returns what ready returned within the last second, or runs it. Never do two runs overlap,
// and never does one begin within a second of the one before. A run belongs to no single request: it goes on,
// for checkTimeout, when a caller leaves.
func (r *Recent) Ask(ctx context.Context, ready func(context.Context) error) error {
	a := r.answer(ctx, ready)
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer returns the answer that holds, or one that is being found.
func (r *Recent) answer(ctx context.Context, ready func(context.Context) error) *checkRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.holds() {
		return r.last
	}
	a := &checkRun{began: time.Now(), ended: make(chan struct{})}
	r.last = a
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	go func() {
		defer cancel()
		a.err = ready(ctx)
		close(a.ended)
	}()
	return a
}

// holds reports whether there is an answer of the last second, or will be one.
func (a *checkRun) holds() bool {
	if a == nil {
		return false
	}
	select {
	case <-a.ended:
		return time.Since(a.began) < recentFor
	default:
		return true
	}
}
