package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon"

	"github.com/google/uuid"

	"carillon/cmd/internal/copies"
	"carillon/cmd/internal/program"
	"carillon/internal/engine"
	"carillon/internal/house"
	"carillon/internal/redistest"
	"carillon/subscription"
)

// TestNoSecretInDebugOutput formats every part of a hub that knows secrets, by the verbs for values
// and as JSON, as a developer does in the search for a mistake.
func TestNoSecretInDebugOutput(t *testing.T) {
	t.Parallel()
	t.Run("pebble", func(t *testing.T) {
		noSecretInDebugOutput(t, "pebble:"+filepath.Join(t.TempDir(), "store"))
	})
	t.Run("redis", func(t *testing.T) {
		redis := redistest.Start(t, "requirepass "+canaryPassword)
		noSecretInDebugOutput(t, strings.Replace(redis.URL(), "://", "://:"+canaryPassword+"@", 1))
	})
}

func noSecretInDebugOutput(t *testing.T, where string) {
	var c commands
	chosen, err := program.Read("hub", summary, &c, []string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", where, "--publishers", "registered",
		"--proxy", "http://u:" + canaryPassword + "@127.0.0.1:1024/", "--proxy-filters",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	f := chosen.Command.(*serveCommand)
	var store *engine.Engine
	var rooms house.Components
	var cfg carillon.Config
	f.open = func(c carillon.Config) (openedHub, error) {
		cfg = c
		return openWith(house.Hooks{
			Engine:     func(e *engine.Engine) { raw := *e; store = &raw },
			Components: func(r house.Components) { rooms = r },
		})(c)
	}
	h, err := f.start(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	closed := sync.OnceFunc(h.close)
	defer closed()
	eventually(t, "the store", func() bool { return store.Ready(t.Context()) == nil })
	sub := activate(t, store)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.run(ctx, func() {}) }()
	eventually(t, "the subscription", func() bool { return h.Loading().Subscriptions == 1 })
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	closed() // so that nothing changes what is looked at
	for _, part := range []any{
		f, *f, &c, c,
		copying[copies.Export]{storeFlags: f.storeFlags},
		store, *store, store.Subscriptions, store.Log, store.Pings, store.Cursors, store.Marks, store.Sources,
		store.Shards, store.Restore, sub, cfg, &cfg, house.Config(cfg), cfg.AllowNet, *h, h, h.openedHub, h.openedHub.(hooked).House,
		rooms.Dispatcher, rooms.Service, rooms.Holder, rooms.Sources, rooms.Dispatcher.Subscribers(sub.Topic),
	} {
		text := debugged(part)
		for _, canary := range []string{canarySecret, canaryPassword, "dTpj"} { // the last as base64 has it behind the user's name
			if i := strings.Index(text, canary); i >= 0 {
				t.Errorf("%T shows %q: …%s…", part, canary, text[max(0, i-300):min(len(text), i+100)])
			}
		}
	}
}

// debugged is what is made of a value to look at it.
func debugged(value any) string {
	text := fmt.Sprintf("%v\n%+v\n%#v\n", value, value, value)
	if encoded, err := json.Marshal(value); err == nil {
		text += string(encoded)
	}
	return text
}

// activate stores a subscription with a secret.
func activate(t *testing.T, store *engine.Engine) subscription.Subscription {
	t.Helper()
	const topic, callback = "https://source.example/", "https://destination.example/" + canaryCapability
	sub := subscription.Subscription{
		ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback, Secret: canarySecret, Expires: time.Now().Add(time.Hour),
	}
	r := subscription.Request{ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: topic, Callback: callback, Secret: canarySecret}
	if err := errors.Join(store.Subscriptions.Submit(t.Context(), r), store.Subscriptions.Activate(t.Context(), r, sub)); err != nil {
		t.Fatal(err)
	}
	return sub
}
