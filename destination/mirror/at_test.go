package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/destination/mirror"
	"carillon/payload"
)

// archived is a listing with earlier states: an address has the listed content in place of the present
// one.
type archived struct {
	listing
	states    map[string]*listing
	described []lists.Archived
	errArchive,
	errMoment error
	// covered says what Changes is to return of what it visits, in order; the last one stays.
	covered []lists.Covered
}

func (a *archived) Resources(ctx context.Context, uri string, visit func(payload.Entry) error) (lists.Snapshot, error) {
	if l := a.states[uri]; l != nil {
		return l.Resources(ctx, uri, visit)
	}
	return a.listing.Resources(ctx, uri, visit)
}

func (a *archived) Changes(_ context.Context, _ string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	a.since = append(a.since, since)
	for _, e := range a.changes {
		if !e.Datetime.IsZero() && e.Datetime.Before(since) {
			continue
		}
		if err := visit(e); err != nil {
			return lists.Covered{}, err
		}
	}
	covered := a.covered[0]
	if len(a.covered) > 1 {
		a.covered = a.covered[1:]
	}
	return covered, a.errChange
}

func (a *archived) Archive(_ context.Context, _, _ string, visit func(lists.Archived) error) error {
	for _, one := range a.described {
		if err := visit(one); err != nil {
			return err
		}
	}
	return a.errArchive
}

func (a *archived) Moment(_ context.Context, uri string) (at, completed time.Time, err error) {
	if l := a.states[uri]; l != nil {
		return l.at, time.Time{}, a.errMoment
	}
	return a.at, time.Time{}, a.errMoment
}

func (*archived) ResourceDump(context.Context, string, func(lists.Package) error) (lists.Snapshot, error) {
	return lists.Snapshot{}, lists.ErrNone
}

func (*archived) ChangeDump(context.Context, string, time.Time, func(lists.Package) error) (lists.Covered, error) {
	return lists.Covered{}, lists.ErrNone
}

var _ mirror.Past = (*archived)(nil)

// old is everything, and an archive.
var old = lists.Set{ResourceList: "resources", ChangeList: "changes", ResourceListArchive: "archive"}

// entry is a resource of a list, without a change.
func entry(e payload.Entry) payload.Entry {
	e.Change, e.Datetime = "", time.Time{}
	return e
}

// stateOf is a state of a Source that has a, and then announced a change of b and of a.
func stateOf(s *source) (from *archived, a1, b1, a2 payload.Entry) {
	a1 = s.put("/a", "first").Entry
	at := s.clock.Add(time.Second)
	b1 = s.put("/b", "new").Entry
	a2 = s.put("/a", "second").Entry
	from = &archived{listing: listing{at: s.clock.Add(time.Second)}}
	from.resources = []payload.Entry{entry(a2), entry(b1)}
	from.states = map[string]*listing{"first": {at: at, resources: []payload.Entry{entry(a1)}}}
	from.described = []lists.Archived{{URI: "first", Capability: payload.CapResourceList, At: at}}
	from.changes = []payload.Entry{b1, a2}
	from.covered = []lists.Covered{{Until: s.clock, Open: true}}
	return from, a1, b1, a2
}

// A mirror is brought to a moment and on to others, in any order; content of another moment is never put.
func TestBaselineAt(t *testing.T) {
	s := newSource(t)
	from, a1, b1, a2 := stateOf(s)
	c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
	c.baseline(&from.listing)
	c.want("a", "second")

	seen, err := c.BaselineAt(t.Context(), from, old, b1.Datetime)
	if err != nil || !seen.At.Equal(from.described[0].At) || !seen.Position.Equal(b1.Datetime) || seen.Entries != 1 || seen.Changes != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	c.want("a", "second") // it stays, and is reported
	c.want("b", "new")
	c.is(s.URL+"/a", mirror.Failed, "it has more bytes than the 5 that the Source announced")
	if !c.Moment().Equal(b1.Datetime) {
		t.Errorf("it is kept at %v", c.Moment())
	}
	if _, err := c.Handle(t.Context(), []follow.Change{s.put("/c", "third")}); !errors.Is(err, mirror.ErrKept) {
		t.Errorf("a change is taken: %v", err)
	}
	if _, err := c.Baseline(t.Context(), &from.listing, everything); !errors.Is(err, mirror.ErrKept) {
		t.Errorf("a baseline is taken: %v", err)
	}

	// The server has it again as it was.
	s.content["/a"] = "first"
	seen, err = c.BaselineAt(t.Context(), from, old, a1.Datetime.Add(time.Second))
	if err != nil || seen.Entries != 1 || seen.Changes != 0 {
		t.Fatalf("%+v, %v", seen, err)
	}
	c.want("a", "first")
	c.want("b", "") // it was not there
	s.content["/a"] = "second"
	if _, err = c.BaselineAt(t.Context(), from, old, a2.Datetime); err != nil {
		t.Fatal(err)
	}
	c.want("a", "second")
	c.want("b", "new")
	all, err := c.Audit(t.Context(), from, old, mirror.AuditOptions{}, func(f mirror.Finding) error { return fmt.Errorf("found %+v", f) })
	if err != nil || all.Entries != 1 || all.Changes != 2 {
		t.Errorf("audit: %+v, %v", all, err)
	}
	if _, err := c.Audit(t.Context(), &from.listing, old, mirror.AuditOptions{}, nil); !errors.Is(err, mirror.ErrKept) {
		t.Errorf("an audit without the archives: %v", err)
	}
	if err := c.LetGo(); err != nil {
		t.Fatal(err)
	}
	c.baseline(&from.listing)
	c.handle(s.put("/c", "third"))
	c.want("c", "third")
}

// A resource that the Source lacks by now, gave no hash of, or has no time for, is not restored.
func TestWhatIsNotProvenIsNotPut(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *source, e *payload.Entry)
		state  mirror.State
		reason string
		final  bool
	}{
		"no hash":         {func(_ *source, e *payload.Entry) { e.Hash = "" }, mirror.Failed, "gave no hash", true},
		"an unknown hash": {func(_ *source, e *payload.Entry) { e.Hash = "crc32:12345678" }, mirror.Failed, "gave no hash", true},
		"gone":            {func(s *source, _ *payload.Entry) { delete(s.content, "/b") }, mirror.Failed, "404", false},
		"another length":  {func(_ *source, e *payload.Entry) { e.Length = "4" }, mirror.Failed, "the Source announced 4", false},
		"no datetime":     {func(_ *source, e *payload.Entry) { e.Datetime = time.Time{} }, mirror.Failed, "before the moment or after", true},
		"a day": {func(_ *source, e *payload.Entry) {
			e.DatetimeTold = e.Datetime.Format("2006-01-02")
		}, mirror.Failed, "before the moment or after", true},
		"no datetime before": {func(_ *source, e *payload.Entry) {
			*e = payload.Entry{Loc: e.Loc, Change: e.Change, Hash: e.Hash}
		}, mirror.Failed, "before the moment or after", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			from, _, b1, _ := stateOf(s)
			at := b1.Datetime
			from.changes = from.changes[:1]
			tt.change(s, &from.changes[0])
			s.content["/a"] = "first"
			c := newCopies(t, s, nil)
			if _, err := c.BaselineAt(t.Context(), from, old, at); err != nil {
				t.Fatal(err)
			}
			c.want("a", "first")
			c.want("b", "")
			got, err := c.store.Mirrored().Copy(t.Context(), b1.Loc)
			if err != nil || got.State != tt.state || !strings.Contains(got.Reason, tt.reason) || got.Next.IsZero() != tt.final {
				t.Errorf("%+v, %v", got, err)
			}
			if err := c.Settle(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			c.want("b", "")
			if all, _, err := c.Counts(t.Context(), 0); err != nil || all[mirror.Failed] != 1 || all[mirror.Missing] != 0 {
				t.Errorf("%v, %v", all, err)
			}
			var failed []string
			if err := c.EachFailed(
				t.Context(), func(f *mirror.Copy) error { failed = append(failed, f.Loc); return nil },
			); err != nil || !slices.Equal(failed, []string{b1.Loc}) {
				t.Errorf("listed %q, %v", failed, err)
			}
		})
	}
}

// A change without a datetime is before a later one that is not after the moment.
func TestUndatedChangesOfThePast(t *testing.T) {
	s := newSource(t)
	from, _, b1, a2 := stateOf(s)
	from.changes[0].Datetime = time.Time{}
	c := newCopies(t, s, nil)
	if _, err := c.BaselineAt(t.Context(), from, old, a2.Datetime); err != nil {
		t.Fatal(err)
	}
	c.is(b1.Loc, mirror.Whole, "")
	c.is(a2.Loc, mirror.Whole, "")
	c.want("b", "new")
}

// The Source's lists must reach to the moment; otherwise nothing is changed.
func TestBaselineAtBeyondReach(t *testing.T) {
	s := newSource(t)
	begin := s.clock
	closed := func(until time.Time) func(*archived, *lists.Set) {
		return func(a *archived, _ *lists.Set) { a.changes, a.covered = nil, []lists.Covered{{Until: until}} }
	}
	for name, tt := range map[string]struct {
		at     time.Duration // after begin
		change func(*archived, *lists.Set)
		want   error
		words  string
	}{
		"before the first state": {30 * time.Second, nil, mirror.ErrReach, "of " + payload.FormatDatetime(begin.Add(61*time.Second))},
		"in the future":          {time.Until(begin) + time.Minute, nil, mirror.ErrReach, "future"},
		"no state at all": {time.Hour, func(_ *archived, set *lists.Set) {
			*set = lists.Set{ChangeList: "changes"}
		}, lists.ErrNone, "Resource List"},
		"states without a time": {time.Hour, func(a *archived, _ *lists.Set) {
			a.at, a.described, a.states = time.Time{}, nil, nil
		}, mirror.ErrReach, "none of its Resource Lists"},
		"no changes":       {90 * time.Second, func(_ *archived, set *lists.Set) { set.ChangeList = "" }, mirror.ErrReach, "known up to " + payload.FormatDatetime(begin.Add(61*time.Second))},
		"changes that end": {110 * time.Second, closed(begin.Add(100 * time.Second)), mirror.ErrReach, "known up to " + payload.FormatDatetime(begin.Add(100*time.Second))},
		"changes that begin later": {110 * time.Second, func(a *archived, _ *lists.Set) {
			a.errChange, a.changes = &lists.GoneError{URI: "changes", Earliest: begin.Add(2 * time.Minute)}, nil
		}, mirror.ErrReach, "not kept any more"},
		"a state of later": {90 * time.Second, func(a *archived, _ *lists.Set) {
			a.states["first"].at = begin.Add(time.Hour)
		}, mirror.ErrReach, "later moment than its archive says"},
		"an archive that is busy": {90 * time.Second, func(a *archived, _ *lists.Set) {
			a.errArchive = &lists.BusyError{URI: "archive", Status: 503}
		}, nil, "503"},
		"changes that are busy": {90 * time.Second, func(a *archived, _ *lists.Set) {
			a.errChange, a.changes = &lists.BusyError{URI: "changes", Status: 503}, nil
		}, nil, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			from, _, _, _ := stateOf(s)
			set := old
			c := newCopies(t, s, func(c *mirror.Config) { c.Delete = true })
			c.baseline(&from.listing)
			if tt.change != nil {
				tt.change(from, &set)
			}
			if tt.at > 24*time.Hour {
				t.Fatal("the test is of today")
			}
			at := begin.Add(tt.at)
			if name == "in the future" {
				at = time.Now().Add(time.Hour)
			}
			_, err := c.BaselineAt(t.Context(), from, set, at)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.words) {
				t.Errorf("error %v, want %v about %q", err, tt.want, tt.words)
			}
			if !c.Moment().IsZero() {
				t.Errorf("it is kept at %v", c.Moment())
			}
			c.want("a", "second")
			c.want("b", "new")
		})
	}
}

// An older state does where the newest cannot be read, or does not say what its archive says.
func TestAnOlderStateDoes(t *testing.T) {
	s := newSource(t)
	from, _, b1, a2 := stateOf(s)
	broken := &listing{at: b1.Datetime, err: fmt.Errorf("reading: %w", lists.ErrAnswer)}
	from.states["broken"] = broken
	from.described = append(from.described, lists.Archived{URI: "broken", At: b1.Datetime},
		lists.Archived{URI: "undated"}, lists.Archived{URI: "completed later", At: b1.Datetime, Completed: a2.Datetime.Add(time.Hour)})
	from.states["undated"] = &listing{}
	c := newCopies(t, s, nil)
	seen, err := c.BaselineAt(t.Context(), from, old, a2.Datetime)
	if err != nil || !seen.At.Equal(from.described[0].At) || seen.Changes != 2 {
		t.Errorf("%+v, %v", seen, err)
	}
	c.want("a", "second")
	c.want("b", "new")
}

// The moment is kept over a restart, also by what broke off in the middle, until a baseline is whole.
func TestAMomentIsKeptOverARestart(t *testing.T) {
	s := newSource(t)
	from, _, b1, _ := stateOf(s)
	c := newCopies(t, s, nil)
	c.cfg.Homes = c.store.Mirrored()
	c.reopen(func(*mirror.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	s.behave("/b", nil)
	cancelling := &cancels{archived: from, cancel: cancel}
	if _, err := c.BaselineAt(ctx, cancelling, old, b1.Datetime); err == nil {
		t.Fatal("it did not end")
	}
	if _, err := c.BaselineAt(t.Context(), from, old, b1.Datetime); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.reopen(func(*mirror.Config) {})
		if !c.Moment().Equal(b1.Datetime) {
			t.Fatalf("after a restart it is kept at %v", c.Moment())
		}
		if err := c.LetGo(); err != nil { // and then the process ends
			t.Fatal(err)
		}
	}
	c.reopen(func(*mirror.Config) {})
	if err := c.LetGo(); err != nil {
		t.Fatal(err)
	}
	c.baseline(&from.listing)
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.reopen(func(*mirror.Config) {})
	if !c.Moment().IsZero() {
		t.Errorf("it is still kept at %v", c.Moment())
	}
}

// cancels ends the work when the changes are read.
type cancels struct {
	*archived
	cancel func()
}

func (c *cancels) Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	c.cancel()
	return c.archived.Changes(ctx, uri, since, visit)
}
