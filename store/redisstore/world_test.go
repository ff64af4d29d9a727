package redisstore_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"carillon/internal/redistest"
	"carillon/internal/together"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// shared is the server of all tests that do not need one of their own. The tests of
// this package that use it run one after another, so that any of them may kill it; those
// with servers of their own run side by side after them.
var shared = redistest.NewShared()

func TestMain(m *testing.M) {
	together.Wait()
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// world is a store on a server that can crash.
type world struct {
	server *redistest.Server
	// cfg opens the store; a test's changes count from the next open on.
	cfg redisstore.Config
	db  *redisstore.DB
}

// newWorld is an empty store on the shared server.
func newWorld(t testing.TB) *world {
	t.Helper()
	server := shared.Server(t)
	return worldOn(t, server, server.Fresh())
}

// ownWorld is an empty store on a server of its own, with more lines for its
// configuration.
func ownWorld(t testing.TB, options ...string) *world {
	t.Helper()
	server := redistest.Start(t, options...)
	return worldOn(t, server, server.Fresh())
}

func worldOn(t testing.TB, server *redistest.Server, url string) *world {
	t.Helper()
	w := &world{server: server, cfg: redisstore.Config{URL: url, Logger: testLog(t)}}
	w.db = w.open(t)
	return w
}

// open opens the store as one more process, ready, until the test ends.
func (w *world) open(t testing.TB) *redisstore.DB {
	t.Helper()
	db := openOnly(t, w.cfg)
	ready(t, db)
	return db
}

// openOnly opens a store that need not be ready, until the test ends.
func openOnly(t testing.TB, cfg redisstore.Config) *redisstore.DB {
	t.Helper()
	db, err := redisstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

// ready waits until the store is.
func ready(t testing.TB, db *redisstore.DB) {
	t.Helper()
	eventually(t, func() error {
		err := db.Ready(t.Context())
		if err != nil && !errors.Is(err, subscription.ErrUnavailable) {
			t.Fatal(err)
		}
		return err
	})
}

func closeDB(t testing.TB, db *redisstore.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// reopen ends the store in good order and opens it again.
func (w *world) reopen(t testing.TB) {
	t.Helper()
	closeDB(t, w.db)
	w.db = w.open(t)
}

// crash kills the server, starts it again on its files and opens the store anew, as another process
// does; the former one is left as a dead process leaves it.
func (w *world) crash(t testing.TB) {
	t.Helper()
	w.server.Kill(t)
	w.server.Restart(t)
	closeDB(t, w.db)
	w.db = w.open(t)
}

// stop ends the server until the test ends.
func (w *world) stop(t testing.TB) {
	t.Helper()
	w.server.Kill(t)
	t.Cleanup(func() { w.server.Restart(t) })
}

// eventually waits until a condition of a real server holds, within a bound.
func eventually(t testing.TB, holds func() error) { t.Helper(); redistest.Eventually(t, holds) }

// testLog shows what the store logs where the test fails.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s", line)
	return len(line), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}
