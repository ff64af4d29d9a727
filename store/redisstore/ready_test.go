package redisstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// wantRefused expects that Ready says no for good, with a text.
func wantRefused(t *testing.T, cfg redisstore.Config, want string) {
	t.Helper()
	err := openOnly(t, cfg).Ready(t.Context())
	if err == nil || errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one that says for good: %s", err, want)
	}
}

// wantWarnings expects one warning for each text, in any order.
func wantWarnings(t *testing.T, db *redisstore.DB, want ...string) {
	t.Helper()
	got := db.Warnings()
	for _, text := range want {
		if !slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, text) }) {
			t.Errorf("no warning says %q: %q", text, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d warnings, want %d: %q", len(got), len(want), got)
	}
}

func TestReadyOnGoodSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantWarnings(t, w.db)
	ready(t, w.db)
	wantWarnings(t, w.db)
}

func TestReadyWhileNothingAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill(t)
	db := openOnly(t, redisstore.Config{URL: server.URL()})
	wantError(t, db.Ready(t.Context()), subscription.ErrUnavailable)
	server.Restart(t)
	ready(t, db)
}

func TestReadyRefusesEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "maxmemory-policy allkeys-lru")
	cfg := redisstore.Config{URL: server.URL()}
	wantRefused(t, cfg, "maxmemory-policy is allkeys-lru")
	wantRefused(t, cfg, "CONFIG SET maxmemory-policy noeviction")
	cfg.AllowEviction = true
	db := openOnly(t, cfg)
	ready(t, db)
	wantWarnings(t, db, "maxmemory-policy is allkeys-lru")
	server.Set(t, "maxmemory-policy", "noeviction")
	ready(t, db)
	wantWarnings(t, db)
}

func TestReadyWarnsOfWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var log bytes.Buffer
	db := openOnly(t, redisstore.Config{URL: server.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct{ name, value, want string }{
		{"appendfsync", "everysec", "appendfsync is everysec"},
		{"appendfsync", "no", "appendfsync is no"},
		{"appendfsync", "always", ""},
		{"no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite is yes"},
		{"appendonly", "no", "appendonly is no"},
	} {
		server.Set(t, c.name, c.value)
		ready(t, db)
		if c.want == "" {
			wantWarnings(t, db)
			continue
		}
		wantWarnings(t, db, c.want)
		if !strings.Contains(log.String(), c.want) {
			t.Errorf("the log does not say %q:\n%s", c.want, log.String())
		}
	}
	said := strings.Count(log.String(), "appendonly is no")
	ready(t, db)
	if again := strings.Count(log.String(), "appendonly is no"); said != 1 || again != 1 {
		t.Errorf("the log says it %d times, then %d, want once", said, again)
	}
}

// A setting changed on a server while hubs work on it causes a warning, also where a start would be
// refused.
func TestReadyWarnsOfAServerThatIsUnfitByNow(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.server.Set(t, "maxmemory-policy", "allkeys-lru")
	w.server.Set(t, "appendonly", "no")
	for range 2 {
		if err := w.db.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
			t.Errorf("got error %v, want one of the policy", err)
		}
		wantWarnings(t, w.db, "maxmemory-policy is allkeys-lru", "appendonly is no")
	}
	w.server.Set(t, "maxmemory-policy", "noeviction")
	ready(t, w.db)
	wantWarnings(t, w.db, "appendonly is no")
}

func TestReadyChecksTheGreatestBody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "proto-max-bulk-len 1mb")
	cfg := redisstore.Config{URL: server.URL(), MaxBody: 1<<20 + 1}
	wantRefused(t, cfg, "proto-max-bulk-len is 1048576, and bodies may have 1048577 bytes")
	cfg.MaxBody--
	ready(t, openOnly(t, cfg))
}

func TestReadyRefusesStrangers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "requirepass sesame", "user hub on >hub ~carillon:* &carillon:bell +@all -@dangerous -function -fcall -fcall_ro -script +info",
		"user poor on >poor ~carillon:* &carillon:bell +@all -@dangerous -info")
	server.As("", "sesame")
	at := func(user string) string { return "redis://" + user + server.Addr() }
	const no = "Redis does not accept the user and the password"
	wantRefused(t, redisstore.Config{URL: at("")}, no)
	wantRefused(t, redisstore.Config{URL: at(":wrong@")}, no)
	wantRefused(t, redisstore.Config{URL: at("hub:wrong@")}, no)
	wantRefused(t, redisstore.Config{URL: at("nobody:sesame@")}, no)
	wantRefused(t, redisstore.Config{URL: at("poor:poor@")}, "does not permit this user")
	// The channel is another's.
	wantRefused(t, redisstore.Config{URL: at("hub:hub@") + "?prefix=other"}, "does not permit this user")
	ready(t, openOnly(t, redisstore.Config{URL: at(":sesame@")}))

	open := redistest.Start(t)
	wantRefused(t, redisstore.Config{URL: "redis://hub:hub@" + open.Addr()}, no)
	wantRefused(t, redisstore.Config{URL: "redis://" + open.Addr() + "/99"}, "DB index is out of range")
}

func TestReadyWithoutConfig(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "user hub on >hub ~* &* +@all -config", "user default on nopass ~* &* +@all")
	url := "redis://hub:hub@" + server.Addr()
	db := openOnly(t, redisstore.Config{URL: url})
	ready(t, db)
	wantWarnings(t, db)
	server.Set(t, "appendonly", "no")
	ready(t, db)
	wantWarnings(t, db, "appendonly is no")
	server.Set(t, "maxmemory-policy", "volatile-lru")
	wantRefused(t, redisstore.Config{URL: url}, "maxmemory-policy is volatile-lru")
}

func TestReadyRefusesAnotherKindOfServer(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	wantRefused(t, redisstore.Config{URL: nodes[0].URL()}, "redis+cluster://")
	wantRefused(t, redisstore.Config{URL: "redis+cluster://" + shared.Server(t).Addr()}, "it is not a node of a Cluster")
	f := redistest.Sentinel(t, 1)
	wantRefused(t, redisstore.Config{URL: "redis://" + f.Sentinels[0].Addr()}, "it is a Sentinel")
	wantError(t, openOnly(t, redisstore.Config{URL: f.Nodes[1].URL()}).Ready(t.Context()), subscription.ErrUnavailable)
}

func TestReadyRefusesAnotherFormat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, other := range []string{"1", "3"} {
		w.server.Do(t, "HSET", prefixOf(w)+":{store}", "format", other)
		wantRefused(t, w.cfg, "has format "+other)
	}
	w.server.Do(t, "DEL", prefixOf(w)+":{store}")
	w.server.Do(t, "SET", prefixOf(w)+":{store}", "something else")
	wantRefused(t, w.cfg, "WRONGTYPE")
}

// prefixOf is the prefix of a world's keys.
func prefixOf(w *world) string {
	_, prefix, _ := strings.Cut(w.cfg.URL, "prefix=")
	return prefix
}

func TestAStoreIsFoundEmptied(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	w.cfg.Logger, w.cfg.Registerer = slog.New(slog.NewTextHandler(&log, nil)), registry
	db := w.open(t)
	ready(t, db)
	if len(db.Warnings()) != 0 || log.Len() != 0 {
		t.Fatalf("nothing has happened, and it warns: %q\n%s", db.Warnings(), log.String())
	}
	w.server.Kill(t)
	w.server.Empty(t)
	w.server.Restart(t)
	ready(t, db)
	wantWarnings(t, db, "the store was found emptied")
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP carillon_redis_emptied_total How often the store was found emptied, or replaced by another.
# TYPE carillon_redis_emptied_total counter
carillon_redis_emptied_total 1
# HELP carillon_redis_warnings What /readyz warns of: settings of the server by which acknowledged data could vanish, a store that was emptied.
# TYPE carillon_redis_warnings gauge
carillon_redis_warnings 1
`), "carillon_redis_emptied_total", "carillon_redis_warnings"))
	// The store works on, and the same news is not logged again.
	ready(t, db)
	wantWarnings(t, db, "the store was found emptied")
	r := request(1)
	must(t, db.Subscriptions().Submit(t.Context(), r))
}

func TestReadyByTLS(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLS(t)
	server := redistest.StartTLS(t, files)
	url := "rediss://" + server.Addr() + "?cert=" + files.Cert + "&key=" + files.Key
	wantRefused(t, redisstore.Config{URL: url}, "the certificate of Redis cannot be verified")
	wantRefused(t, redisstore.Config{URL: url + "&server-name=elsewhere&ca=" + files.CA}, "the certificate of Redis cannot be verified")
	w := worldOn(t, server, url+"&ca="+files.CA)
	work(t, w.db)
	// The server asks for a certificate, and a plain client speaks another protocol.
	for _, url := range []string{"rediss://" + server.Addr() + "?ca=" + files.CA, "redis://" + server.Addr()} {
		if err := openOnly(t, redisstore.Config{URL: url}).Ready(t.Context()); err == nil {
			t.Errorf("%s: Ready is content", url)
		}
	}
}

func TestReadyByUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "") // shorter than what t.TempDir gives: a socket's path is bounded
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	server := redistest.Start(t, "unixsocket "+socket)
	w := worldOn(t, server, "unix://"+socket+"?db=3")
	work(t, w.db)
}
