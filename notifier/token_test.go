package notifier_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
)

// keyring is a notifier.Tokens whose token can be changed, as a file can.
type keyring struct {
	mu      sync.Mutex
	inFile  notifier.Token // guarded by mu
	current notifier.Token // guarded by mu
	broken  error          // guarded by mu
	renewed int            // guarded by mu
}

func (k *keyring) Token() notifier.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

func (k *keyring) Renew(notifier.Token) (notifier.Token, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewed++
	if k.broken == nil {
		k.current = k.inFile
	}
	return k.current, k.broken
}

func (k *keyring) put(token notifier.Token, broken error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFile, k.broken = token, broken
}

// asks answers 401 to all but the token.
func asks(token string) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) {
		if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+token {
			return status(http.StatusUnauthorized), nil
		}
		return status(http.StatusOK), nil
	}
}

func TestNoTokenIsSentWhereThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{}, &hub{})
		w.add(inDefault, "1")
		w.drain()
		if got := w.hub.received()[0].header.Values("Authorization"); len(got) > 0 {
			t.Errorf("Authorization: %q", got)
		}
	})
}

// A token that was rotated is taken up, without a pause once it is there.
func TestATokenIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &keyring{inFile: "first", current: "first"}
		w := newWorld(t, notifier.Config{Tokens: keys, MaxWait: time.Millisecond}, &hub{answer: asks("first")})
		w.add(inDefault, "1")
		w.drain()
		w.hub.set(asks("second"))
		keys.put("second", nil)
		w.add(inDefault, "2")
		time.Sleep(100 * time.Millisecond)
		if n := len(w.hub.received()); n != 3 {
			t.Errorf("%d POSTs; want one of before, the refused one and the next at once", n)
		}
		w.hub.set(nil) // accepts whatever is still sent
		w.drain()
	})
}

// While the hub refuses what there is, it is asked with the pauses of any refusal, and the
// notification is not given up.
func TestARefusedTokenIsTriedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keys := &keyring{inFile: "carillon_old", current: "carillon_old"}
		w := newWorld(
			t,
			notifier.Config{Tokens: keys, MaxWait: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))},
			&hub{answer: asks("carillon_new")},
		)
		w.add(inDefault, "1")
		time.Sleep(10 * time.Minute)
		if n := len(w.hub.received()); n < 10 || n > 60 {
			t.Errorf("%d POSTs within ten minutes", n)
		}
		keys.put("", errors.New("the file is gone"))
		time.Sleep(2 * time.Minute)
		keys.put("carillon_new", nil)
		w.drain()
		w.stop()
		for _, want := range []string{"status=401", "hub does not know the token", "the file is gone"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q", want)
			}
		}
		if strings.Contains(log.String(), "carillon_") {
			t.Errorf("the log tells a token:\n%s", log.String())
		}
	})
}

// A file whose token is another each time does not make a storm of requests.
func TestTokensThatChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{
			Tokens: &restless{}, MaxWait: time.Millisecond,
		}, &hub{answer: func(number int, r *http.Request) (*http.Response, error) {
			if number > 1000 {
				return status(http.StatusOK), nil // or the test would not end
			}
			return asks("never")(number, r)
		}})
		w.add(inDefault, "1")
		time.Sleep(10 * time.Minute)
		if n := len(w.hub.received()); n > 120 {
			t.Errorf("%d POSTs within ten minutes", n)
		}
		w.hub.set(nil)
		w.drain()
	})
}

type restless struct{ n int }

func (r *restless) Token() notifier.Token { return notifier.Token(fmt.Sprint("t", r.n)) }
func (r *restless) Renew(notifier.Token) (notifier.Token, error) {
	r.n++
	return r.Token(), nil
}

// A refusal names the remedy.
func TestHints(t *testing.T) {
	for _, row := range []struct {
		code   int
		tokens notifier.Tokens
		want   string
	}{
		{401, nil, "hub source add"},
		{401, &keyring{inFile: "a", current: "a"}, "was revoked, or rotated"},
		{403, &keyring{inFile: "a", current: "a"}, "may not be for this topic"},
		{403, nil, `hint=""`},
		{500, &keyring{inFile: "a", current: "a"}, `hint=""`},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			w := newWorld(t, notifier.Config{Tokens: row.tokens, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &hub{
				answer: func(int, *http.Request) (*http.Response, error) { return status(row.code), nil },
			})
			w.add(inDefault, "1")
			time.Sleep(2 * time.Second)
			w.stop()
			if !strings.Contains(log.String(), row.want) {
				t.Errorf("%d: the log does not say %q:\n%s", row.code, row.want, log.String())
			}
		})
	}
}
