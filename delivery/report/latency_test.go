package report_test

import (
	"math"
	"testing"
	"time"

	"carillon/delivery/report"

	"pgregory.net/rapid"
)

// A bucket holds what is below its bound and not below that of the one before, and is no
// wider than a quarter of where it begins.
func TestLatencyBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "took"))
		b := report.LatencyBucket(took)
		if b < 0 || b >= report.LatencyBuckets {
			t.Fatalf("%s is in bucket %d", took, b)
		}
		if b < report.LatencyBuckets-1 && took >= report.LatencyBound(b) || b > 0 && took < report.LatencyBound(b-1) {
			t.Fatalf("%s is in bucket %d", took, b)
		}
	})
	equal(t, "the last bucket begins after two minutes", report.LatencyBound(report.LatencyBuckets-2) > 2*time.Minute, true)
	for b := 5; b < report.LatencyBuckets; b++ {
		if first, end := report.LatencyBound(b-1), report.LatencyBound(b); end <= first || end-first > first/4 {
			t.Errorf("bucket %d is from %s to %s", b, first, end)
		}
	}
}

func TestLatencyQuantile(t *testing.T) {
	var l report.Latency
	equal(t, "of none", l.Quantile(.5), 0)
	for i := range 1000 {
		l.Note(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{
		.5: 500 * time.Millisecond, .9: 900 * time.Millisecond, .99: 990 * time.Millisecond, 1: time.Second,
	} {
		if got := l.Quantile(q); got < want*4/5 || got > want*5/4 {
			t.Errorf("quantile %v is %s, want about %s", q, got, want)
		}
	}
	before := l
	l.Note(time.Minute)
	if got := l.Minus(before).Quantile(.5); got < 48*time.Second || got > 75*time.Second {
		t.Errorf("since then half took at most %s, want about a minute", got)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
