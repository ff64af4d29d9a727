package subscription

import (
	"fmt"
	"time"
)

// LeaseRules bounds the leases that are granted. A field that is zero stands
// for its default. No lease is perpetual (WebSub §5.3.1).
type LeaseRules struct {
	// Min is the shortest lease, whole seconds, at least 1 s; default 300 s. It
	// keeps subscribers from renewing without pause.
	Min time.Duration
	// Default is granted to who wishes for none, whole seconds; default
	// 864,000 s, ten days (WebSub §8.2).
	Default time.Duration
	// Max is the longest lease, whole seconds; default 2,678,400 s, 31 days
	// (CN §4.2).
	Max time.Duration
}

// The defaults of LeaseRules.
const (
	DefaultLeaseMin = 300 * time.Second
	DefaultLease    = 864_000 * time.Second
	DefaultLeaseMax = 2_678_400 * time.Second
)

func (l LeaseRules) withDefaults() LeaseRules {
	if l.Min == 0 {
		l.Min = DefaultLeaseMin
	}
	if l.Default == 0 {
		l.Default = DefaultLease
	}
	if l.Max == 0 {
		l.Max = DefaultLeaseMax
	}
	return l
}

// Validate reports whether the rules can be kept.
func (l LeaseRules) Validate() error {
	l = l.withDefaults()
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"minimum", l.Min}, {"default", l.Default}, {"maximum", l.Max}} {
		if f.value < time.Second || f.value%time.Second != 0 {
			return fmt.Errorf("the %s lease must be whole seconds, at least 1 s, not %v", f.name, f.value)
		}
	}
	if l.Min > l.Default || l.Default > l.Max {
		return fmt.Errorf("the leases must be minimum <= default <= maximum, not %v, %v, %v", l.Min, l.Default, l.Max)
	}
	return nil
}

// Grant returns the lease that a wish gets: the default if none was given, and
// otherwise the wish, in whole seconds, brought within the bounds (WebSub §5.1,
// CN §4.2).
func (l LeaseRules) Grant(wished time.Duration, given bool) time.Duration {
	l = l.withDefaults()
	if !given {
		return l.Default
	}
	return min(max(wished.Truncate(time.Second), l.Min), l.Max)
}
