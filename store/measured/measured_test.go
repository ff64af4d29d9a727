package measured_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/source"
	"carillon/store/measured"
	"carillon/subscription"
)

// count returns how many calls were observed by operation and outcome, and behind "errors " how
// many of them are counted as errors.
func count(t *testing.T, reg *prometheus.Registry) map[string]uint64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make([]string, len(m.GetLabel()))
			for i, l := range m.GetLabel() {
				labels[i] = l.GetValue()
			}
			if n := m.GetHistogram().GetSampleCount(); n > 0 {
				counts[strings.Join(labels, " ")] = n
			}
			if c := m.GetCounter(); c != nil {
				counts["errors "+strings.Join(labels, " ")] = uint64(c.GetValue())
			}
		}
	}
	return counts
}

// Every method of every interface is measured: one that engines get later is not forgotten.
func TestEveryMethodIsMeasured(t *testing.T) {
	reg := prometheus.NewRegistry()
	calls, err := measured.NewCalls(reg)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, wrapped := range map[string]any{
		"log":           calls.Log(silent{}),
		"pings":         calls.Pings(silent{}),
		"cursors":       calls.Cursors(silent{}),
		"marks":         calls.Marks(silent{}),
		"subscriptions": calls.Subscriptions(silent{}),
		"sources":       calls.Sources(silentSources{}),
	} {
		v := reflect.ValueOf(wrapped)
		for i := range v.NumMethod() {
			method := v.Type().Method(i).Name
			operation := prefix + "_" + strings.ToLower(method)
			before := count(t, reg)[operation+" ok"]
			call(v.Method(i))
			if after := count(t, reg)[operation+" ok"]; after != before+1 {
				t.Errorf("%s.%s was observed %d times as %s", prefix, method, after-before, operation)
			}
		}
	}
}

// call calls a method with a context and otherwise with nothing, and reads the sequence that
// it returns, if it does.
func call(method reflect.Value) {
	in := make([]reflect.Value, method.Type().NumIn())
	for i := range in {
		in[i] = reflect.Zero(method.Type().In(i))
	}
	in[0] = reflect.ValueOf(context.Background())
	if out := method.Call(in); out[0].Kind() == reflect.Func {
		for range out[0].Seq2() {
		}
	}
}

// Outcomes are recognized by their errors, however these are wrapped.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{delivery.ErrEndOfLog, "ok"},
		{subscription.ErrNotFound, "ok"},
		{source.ErrExists, "ok"},
		{delivery.ErrUnavailable, "unavailable"},
		{context.DeadlineExceeded, "unavailable"},
		{&delivery.FencedError{}, "fenced"},
		{context.Canceled, "ended"},
		{errors.New("something"), "failed"},
	} {
		reg := prometheus.NewRegistry()
		calls, err := measured.NewCalls(reg)
		if err != nil {
			t.Fatal(err)
		}
		failing := silent{}
		if tt.err != nil {
			failing.err = fmt.Errorf("reading: %w", tt.err)
		}
		if _, err := calls.Log(failing).Read(t.Context(), "", 0); !errors.Is(err, tt.err) {
			t.Errorf("%v became %v", tt.err, err)
		}
		for range calls.Cursors(failing).Members(t.Context(), 0) {
		}
		for _, operation := range []string{"log_read", "cursors_members"} {
			got := count(t, reg)
			if got[operation+" "+tt.want] != 1 {
				t.Errorf("%v: %v, want %s %s", tt.err, got, operation, tt.want)
			}
			for _, outcome := range []string{"unavailable", "failed"} {
				errs, found := got["errors "+operation+" "+outcome]
				if !found || (errs == 1) != (outcome == tt.want) {
					t.Errorf("%v: %d errors of %s are %s (%v)", tt.err, errs, operation, outcome, found)
				}
			}
		}
	}
}

// A missing part stays nil.
func TestNoMarks(t *testing.T) {
	calls, err := measured.NewCalls(nil)
	if err != nil {
		t.Fatal(err)
	}
	if calls.Marks(nil) != nil {
		t.Error("an engine without marks has some")
	}
}
