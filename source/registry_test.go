package source_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/source"
	"carillon/topic"
)

// shelf is a Store in memory that can be away, and counts how often it is read.
type shelf struct {
	mu    sync.Mutex
	all   map[string]source.Source // guarded by mu
	away  error                    // guarded by mu
	reads int                      // guarded by mu
	// hold, if not nil, is waited for by List after it has read.
	hold chan struct{}
	slow time.Duration // of each reading
}

func (s *shelf) List(ctx context.Context) ([]source.Source, error) {
	s.mu.Lock()
	s.reads++
	err, hold := s.away, s.hold
	var all []source.Source
	for _, one := range s.all {
		all = append(all, one)
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.slow): // in a time of the test's own
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, err
}

func (s *shelf) Get(_ context.Context, name string) (source.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[name]
	if !ok {
		return one, source.ErrNotFound
	}
	return one, nil
}

func (s *shelf) Add(_ context.Context, one source.Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[one.Name]; ok {
		return source.ErrExists
	}
	s.all[one.Name] = one
	return nil
}

func (s *shelf) Replace(_ context.Context, one source.Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[one.Name] = one
	return nil
}

func (s *shelf) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
	return nil
}

func (s *shelf) set(away error, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.hold = away, hold
}

func (s *shelf) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// registered makes a Source on the shelf and returns its token.
func (s *shelf) registered(t *testing.T, name string) source.Token {
	t.Helper()
	one, token, err := source.New(name, []string{"https://a.example/" + name}, noon)
	if err == nil {
		err = s.Add(t.Context(), one)
	}
	if err != nil {
		t.Fatal(err)
	}
	return token
}

var errAway = fmt.Errorf("%w: away", source.ErrUnavailable)

// inTown runs a test with a Registry over an empty shelf, in a time of its own.
func inTown(t *testing.T, test func(t *testing.T, s *shelf, r *source.Registry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{all: map[string]source.Source{}}
		r, err := source.NewRegistry(s, source.Config{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, r)
	})
}

func want(t *testing.T, r *source.Registry, token source.Token, want error) {
	t.Helper()
	grant, err := r.Authenticate(t.Context(), token)
	if !errors.Is(err, want) || (err == nil) != (grant != nil) {
		t.Fatalf("got %v, %v; want the error %v", grant, err, want)
	}
}

func refresh(t *testing.T, r *source.Registry) {
	t.Helper()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAuthenticate(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		one, two := s.registered(t, "one"), s.registered(t, "two")
		for token, name := range map[source.Token]string{one: "one", two: "two"} {
			grant, err := r.Authenticate(t.Context(), token)
			if err != nil || grant.Name() != name || !grant.Covers(
				topic.Parse("https://a.example/"+name+"/x"),
			) || grant.Covers(topic.Parse("https://a.example/other")) {
				t.Errorf("%s: %v, %v", name, grant, err)
			}
		}
		if n := s.read(); n != 1 {
			t.Errorf("the store was read %d times", n)
		}
		for _, wrong := range []source.Token{"", "x", one + "x", one[:len(one)-1], source.NewToken()} {
			want(t, r, wrong, source.ErrUnknownToken)
		}
		if r.Count() != 2 {
			t.Errorf("%d Sources", r.Count())
		}
	})
}

// A flood of wrong tokens reads the store once a second, and a new token is known then
// at the latest.
func TestUnknownTokens(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		refresh(t, r)
		time.Sleep(time.Millisecond)
		for range 1000 {
			want(t, r, source.NewToken(), source.ErrUnknownToken)
		}
		if n := s.read(); n != 2 {
			t.Errorf("the store was read %d times", n)
		}
		token := s.registered(t, "one")
		want(t, r, token, source.ErrUnknownToken)
		time.Sleep(time.Second)
		want(t, r, token, nil)
		if n := s.read(); n != 3 {
			t.Errorf("the store was read %d times", n)
		}
	})
}

// Those who come at the same time wait for one reading, however long it takes.
func TestUnknownTokensAtOnce(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		token := s.registered(t, "one")
		s.slow = 2 * time.Second
		var wg sync.WaitGroup
		ctx, hangUp := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := r.Authenticate(ctx, token); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait() // it reads
		time.Sleep(time.Millisecond)
		for range 50 {
			wg.Go(func() { want(t, r, token, nil) })
		}
		synctest.Wait()
		hangUp()
		wg.Wait()
		// Once more for those who came when it had begun: their token may be newer.
		if n := s.read(); n != 2 {
			t.Errorf("the store was read %d times", n)
		}
	})
}

// A Source that was revoked is refused after Refresh at once, and else within
// Config.Every; a reading that began before does not bring it back.
func TestRevocation(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		one, two := s.registered(t, "one"), s.registered(t, "two")
		refresh(t, r)
		hold := make(chan struct{})
		s.set(nil, hold)
		var wg sync.WaitGroup
		wg.Go(func() { refresh(t, r) }) // has read both
		synctest.Wait()
		if err := s.Delete(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		s.set(nil, nil)
		wg.Go(func() { refresh(t, r) })
		synctest.Wait()
		close(hold)
		wg.Wait()
		want(t, r, one, source.ErrUnknownToken)
		want(t, r, two, nil)

		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := s.Delete(t.Context(), "two"); err != nil {
			t.Fatal(err)
		}
		want(t, r, two, nil)
		time.Sleep(5*time.Second + time.Millisecond)
		want(t, r, two, source.ErrUnknownToken)
		stop()
		wg.Wait()
	})
}

// TestTheStoreIsAway checks that without a store unknown tokens are refused, known ones work for
// five minutes, and then none does. All work again when the store is back.
func TestTheStoreIsAway(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		one := s.registered(t, "one")
		s.set(errAway, nil)
		want(t, r, one, source.ErrUnavailable)
		want(t, r, source.NewToken(), source.ErrUnavailable)
		if n := s.read(); n != 1 {
			t.Errorf("a store that is away was asked %d times within a second", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		s.set(nil, nil)
		time.Sleep(6 * time.Second)
		want(t, r, one, nil)

		s.set(errors.New("something else"), nil)
		time.Sleep(4*time.Minute + 50*time.Second)
		want(t, r, one, nil)
		want(t, r, source.NewToken(), source.ErrUnavailable)
		time.Sleep(20 * time.Second)
		want(t, r, one, source.ErrUnavailable)
		s.set(nil, nil)
		time.Sleep(6 * time.Second)
		want(t, r, one, nil)
		stop()
		wg.Wait()
	})
}

// A store that hangs is away.
func TestTheStoreHangs(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		one := s.registered(t, "one")
		s.set(nil, make(chan struct{}))
		began := time.Now()
		want(t, r, one, source.ErrUnavailable)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, cfg := range []source.Config{{Every: -1}, {Stale: time.Second}, {Unknown: -1}, {Every: time.Minute, Stale: time.Minute}} {
		if _, err := source.NewRegistry(&shelf{}, cfg, nil, nil); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// Rotate gives a token and takes the one before.
func TestRotate(t *testing.T) {
	inTown(t, func(t *testing.T, s *shelf, r *source.Registry) {
		before := s.registered(t, "one")
		after := source.NewToken()
		if err := source.Rotate(t.Context(), s, "one", after.Hash(), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		want(t, r, after, nil)
		want(t, r, before, source.ErrUnknownToken)
		one, err := s.Get(t.Context(), "one")
		if err != nil || !one.Created.Equal(noon) || !one.Issued.Equal(noon.Add(time.Hour)) {
			t.Errorf("%+v, %v", one, err)
		}
		if err := source.Rotate(t.Context(), s, "nobody", after.Hash(), noon); !errors.Is(err, source.ErrNotFound) {
			t.Errorf("err = %v", err)
		}
	})
}

// TestRegister checks the limit of Sources, and the error for a name that exists already.
func TestRegister(t *testing.T) {
	s := &shelf{all: map[string]source.Source{}}
	one, _, err := source.New("one", []string{"https://a.example/"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	for n := range source.MaxSources - 1 {
		s.all[fmt.Sprint(n)] = source.Source{}
	}
	if err := source.Register(t.Context(), s, one); err != nil {
		t.Fatal(err)
	}
	if err := source.Register(t.Context(), s, one); !errors.Is(err, source.ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	one.Name = "one-more"
	if err := source.Register(t.Context(), s, one); !errors.Is(err, source.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
}
