package wallclock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/internal/wallclock"
)

// machine is a clock that is set back and forth.
type machine struct{ set time.Duration }

func (m *machine) now() time.Time { return time.Now().Add(m.set).Round(0) }

// in runs a test with a Clock that doubts for an hour.
func in(t *testing.T, test func(t *testing.T, m *machine, c *wallclock.Clock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		test(t, m, wallclock.New(wallclock.Config{Wall: m.now, DoubtFor: time.Hour}))
	})
}

// behind wants the Clock to be behind the machine by so much.
func behind(t *testing.T, what string, m *machine, c *wallclock.Clock, want time.Duration) {
	t.Helper()
	if got := m.now().Sub(c.Now()); got != want {
		t.Errorf("%s: %s behind the machine, want %s", what, got, want)
	}
	if got := c.Ahead(); got != want {
		t.Errorf("%s: Ahead is %s, want %s", what, got, want)
	}
}

func TestSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wallclock.New(wallclock.Config{DoubtFor: time.Hour})
		time.Sleep(time.Minute)
		if got := c.Now(); !got.Equal(time.Now()) {
			t.Errorf("got %s at %s", got, time.Now())
		}
	})
}

// A clock that was set forward is believed after an hour, and not again if it goes on further.
func TestSetForward(t *testing.T) {
	in(t, func(t *testing.T, m *machine, c *wallclock.Clock) {
		m.set = wallclock.MaxStep
		behind(t, "a small step", m, c, 0)
		m.set = 32 * 24 * time.Hour
		behind(t, "a great one", m, c, m.set-wallclock.MaxStep)
		time.Sleep(40 * time.Minute)
		behind(t, "later", m, c, m.set-wallclock.MaxStep)
		m.set *= 2
		behind(t, "once more", m, c, m.set-wallclock.MaxStep)
		time.Sleep(time.Hour - time.Second)
		behind(t, "before the end of the doubt", m, c, m.set-wallclock.MaxStep)
		time.Sleep(time.Second)
		behind(t, "at its end", m, c, 0)
	})
}

// A clock that is set right again is believed, and its wrong time was never returned.
func TestSetForwardAndBack(t *testing.T) {
	in(t, func(t *testing.T, m *machine, c *wallclock.Clock) {
		m.set = 32 * 24 * time.Hour
		behind(t, "forward", m, c, m.set)
		time.Sleep(time.Minute)
		m.set = 10 * time.Second
		behind(t, "and back", m, c, 0)
		time.Sleep(time.Hour)
		m.set = 40 * 24 * time.Hour
		behind(t, "forward again, which is another doubt", m, c, m.set-10*time.Second)
		time.Sleep(30 * time.Minute)
		behind(t, "later", m, c, m.set-10*time.Second)
	})
}

// A clock that is set back is believed at once, and so is its return.
func TestSetBack(t *testing.T) {
	in(t, func(t *testing.T, m *machine, c *wallclock.Clock) {
		m.set = -24 * time.Hour
		behind(t, "back", m, c, 0)
		time.Sleep(3 * time.Hour)
		m.set = 0
		behind(t, "the time it was when the clock was set back, as it is past", m, c, 3*time.Hour)
		time.Sleep(time.Hour)
		behind(t, "an hour later", m, c, 0)
		m.set = -time.Hour
		behind(t, "back again", m, c, 0)
		m.set = 0
		behind(t, "and returned at once", m, c, 0)
	})
}

// A promise counts from no time that is past.
func TestLatest(t *testing.T) {
	in(t, func(t *testing.T, m *machine, c *wallclock.Clock) {
		begun := time.Now()
		for _, step := range []struct{ set, want time.Duration }{
			{0, 0}, {24 * time.Hour, 24 * time.Hour}, {0, 0}, {-24 * time.Hour, 0}, {-time.Second, 0}, {time.Second, time.Second},
		} {
			m.set = step.set
			if got := c.Latest().Sub(begun); got != step.want {
				t.Errorf("set by %s: %s, want %s", step.set, got, step.want)
			}
		}
		m.set = -24 * time.Hour
		for want := time.Second; want < 4*time.Hour; want += time.Hour {
			if got := c.Latest().Sub(begun); got != want {
				t.Errorf("while it is set back: %s, want %s", got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A time in a date proves that it has been.
func TestReached(t *testing.T) {
	in(t, func(t *testing.T, m *machine, c *wallclock.Clock) {
		c.Reached(m.now().Add(24 * time.Hour))
		behind(t, "the machine's clock is behind that", m, c, 0)
		m.set = 25 * time.Hour
		behind(t, "it was set right", m, c, time.Hour)
		m.set = 24*time.Hour - time.Minute
		behind(t, "or nearly so", m, c, 0)
	})
}

// For any steps of the machine's clock, no time is later than the machine's. The time moves forward by
// no more than has passed, except for small steps, returns to earlier times, and the end of a doubt.
func TestNeverLater(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct{ set, sleep time.Duration }
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				time.Duration(rapid.Int64Range(int64(-48*time.Hour), int64(48*time.Hour)).Draw(rt, "set")),
				time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(rt, "sleep")),
			}
		}), 1, 20).Draw(rt, "steps")
		var wrong string
		in(t, func(_ *testing.T, m *machine, c *wallclock.Clock) {
			before, looked, doubted := c.Now(), time.Now(), time.Time{}
			highest := before
			for _, s := range steps {
				m.set = s.set
				for _, sleep := range []time.Duration{0, s.sleep} {
					time.Sleep(sleep)
					now, passed := c.Now(), time.Since(looked)
					allowed := before.Add(passed)
					if allowed.Before(highest) {
						allowed = highest
					}
					over := !doubted.IsZero() && time.Since(doubted) >= time.Hour
					if now.After(m.now()) || !over && now.After(allowed.Add(wallclock.MaxStep)) {
						wrong = "told " + now.String() + " after " + before.String()
					}
					switch {
					case c.Ahead() == 0:
						doubted = time.Time{}
					case doubted.IsZero():
						doubted = time.Now()
					}
					before, looked = now, time.Now()
					if now.After(highest) {
						highest = now
					}
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
