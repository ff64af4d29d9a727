package operator_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"carillon/check"
	"carillon/operator"
)

// checker is a desk whose checks find what the test says.
func checker(t *testing.T, run func(ctx context.Context, found func(check.Finding)) (check.Summary, error)) *operator.Service {
	return newService(t, openStore(t), newFake(1, all), func(c *operator.Config) {
		c.Check = func(ctx context.Context, _ []string, found func(check.Finding)) (check.Summary, error) {
			return run(ctx, found)
		}
	})
}

var somewhere = []string{"https://source.test/"}

// TestCheck yields the findings in their order, and at last the summary.
func TestCheck(t *testing.T) {
	d := checker(t, func(_ context.Context, found func(check.Finding)) (check.Summary, error) {
		found(check.Finding{What: "one"})
		found(check.Finding{What: "two"})
		return check.Summary{Errors: 2}, nil
	})
	var got []string
	for c, err := range d.Check(t.Context(), somewhere) {
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Finding != nil:
			got = append(got, c.Finding.What)
		case c.Summary.Errors == 2:
			got = append(got, "summary")
		}
	}
	if !slices.Equal(got, []string{"one", "two", "summary"}) {
		t.Errorf("got %q", got)
	}
}

// A check ends when the loop does, and yields nothing more.
func TestCheckBrokenOff(t *testing.T) {
	ended := false
	d := checker(t, func(ctx context.Context, found func(check.Finding)) (check.Summary, error) {
		for range 3 {
			found(check.Finding{})
		}
		ended = ctx.Err() != nil
		return check.Summary{}, ctx.Err()
	})
	for range d.Check(t.Context(), somewhere) {
		break
	}
	if !ended {
		t.Error("the check was not told to end")
	}
}

// A desk gives the reason why it does not check.
func TestWhatIsNotChecked(t *testing.T) {
	failing := checker(t, func(context.Context, func(check.Finding)) (check.Summary, error) {
		return check.Summary{}, errors.New("no answer")
	})
	for name, c := range map[string]struct {
		service *operator.Service
		places  []string
		want    error
	}{
		"no place": {failing, nil, operator.ErrInvalid},
		"no hub":   {newService(t, openStore(t), newFake(1, all), nil), somewhere, operator.ErrConflict},
		"failing":  {failing, somewhere, operator.ErrConflict},
	} {
		events := 0
		for _, err := range c.service.Check(t.Context(), c.places) {
			if events++; events == 1 && !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if events == 0 {
			t.Errorf("%s: no event", name)
		}
	}
}

// No more than MaxChecks run at a time; another may begin when one has ended.
func TestChecksAreBounded(t *testing.T) {
	d := checker(t, func(_ context.Context, found func(check.Finding)) (check.Summary, error) {
		found(check.Finding{})
		return check.Summary{}, nil
	})
	var ends []func()
	begin := func() error {
		next, stop := iter.Pull2(d.Check(t.Context(), somewhere))
		ends = append(ends, stop)
		_, err, _ := next()
		return err
	}
	for range operator.MaxChecks {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin(); !errors.Is(err, operator.ErrUnavailable) {
		t.Errorf("one check too many: %v", err)
	}
	ends[0]()
	if err := begin(); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	for _, end := range ends {
		end()
	}
}
