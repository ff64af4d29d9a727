package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"carillon/internal/redistest"
)

// canaryStore is an engine of the test, and what can happen to it.
type canaryStore struct {
	flags  []string // of every command
	fail   func(meanwhile func())
	damage func() // while no hub runs
}

// TestNoSecretShows puts secrets into everything that takes one, lets as much as possible go
// wrong, and looks for them in all that comes out of a hub: its output, at the level debug and
// with the stacks of all goroutines, what its listeners show, its answers, and its requests to
// callbacks and topics.
func TestNoSecretShows(t *testing.T) {
	t.Run("pebble", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "store")
		noSecretShows(t, canaryStore{
			flags:  []string{"--store", "pebble:" + dir},
			fail:   func(meanwhile func()) { meanwhile() },
			damage: func() { damagePebble(t, dir) },
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t, "requirepass "+canaryPassword)
		redis.As("", canaryPassword)
		store := strings.Replace(redis.URL(), "://", "://:"+canaryPassword+"@", 1)
		noSecretShows(t, canaryStore{
			flags:  []string{"--store", store},
			fail:   func(meanwhile func()) { redis.Kill(t); meanwhile(); redis.Restart(t) },
			damage: func() { damageRedis(t, redis) },
		})
	})
}

func noSecretShows(t *testing.T, store canaryStore) {
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	w := newCanaryFixture(t, "http://"+listen+"/websub/")
	args := append([]string{
		"--listen", listen, "--admin", "127.0.0.1:0", "--log-level", "debug", "--publishers", "registered",
		"--retry-first", "20ms", "--retry-max", "200ms", "--delivery-timeout", "2s", "--takeover", "1s",
	}, store.flags...)
	p := startHub(t, args...)
	w.register(t, store)
	w.subscribeAll(t)
	w.askWrongly(t)
	w.publishAll(t)
	w.look(p)
	store.fail(func() {
		w.subscribe(t, "fails")
		w.post(t, "", "text/plain", "while it is away", w.links("good"), "Authorization: Bearer "+w.token)
		w.look(p)
	})
	eventually(t, "the store", p.isReady)
	w.end(t, p, (*process).kill)
	w.commands(t, store)
	store.damage()
	p = startHub(t, args...)
	w.subscribe(t, "confirms")
	w.publishAll(t)
	w.look(p)
	if log := p.log.String(); !strings.Contains(log, "left out") && !strings.Contains(log, "passed over") {
		t.Errorf("the log does not tell of the damage: %s", log)
	}
	w.end(t, p, func(p *process) { // with the stacks of all goroutines
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		_ = p.cmd.Wait()
	})
	w.refusals(t)
	w.check(t)
}

// end ends a hub and keeps what it logged.
func (w *canaryFixture) end(t *testing.T, p *process, how func(*process)) {
	t.Helper()
	how(p)
	text := p.log.String()
	if !strings.Contains(text, `"level":"DEBUG"`) {
		t.Errorf("the log is not one of the level debug: %s", text)
	}
	w.keep("the log", text)
}

// register makes a Source and takes its token. This one output, which shows the token, is not looked
// at.
func (w *canaryFixture) register(t *testing.T, store canaryStore) {
	t.Helper()
	out, code := w.command(t, append([]string{"source", "add", "somebody", "--topic-prefix", w.URL + "/topic"}, store.flags...)...)
	if w.token = strings.TrimSpace(out); code != 0 || len(w.token) < 40 {
		t.Fatalf("status %d, and the token is %q", code, w.token)
	}
	out, _ = w.command(t, append([]string{"source", "list", "--json"}, store.flags...)...)
	w.keep("the list of Sources", out)
}

func (w *canaryFixture) subscribe(t *testing.T, callback string) int {
	t.Helper()
	form := url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {w.topic("good")}, "hub.callback": {w.callback(callback)}, "hub.secret": {canarySecret},
		"hub.verify_token": {canarySecret},
	}
	return w.post(t, "", formType, form.Encode())
}

const formType = "application/x-www-form-urlencoded"

func (w *canaryFixture) subscribeAll(t *testing.T) {
	t.Helper()
	for _, name := range []string{"confirms", "fails", "redirects", "resets", "garbles", "gone", "refuses", "garbles-challenge"} {
		if status := w.subscribe(t, name); status != http.StatusAccepted {
			t.Fatalf("subscribing is answered %d", status)
		}
	}
	denied := url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {w.topic("of-another-hub")}, "hub.callback": {w.callback("denied")}, "hub.secret": {canarySecret},
	}
	w.post(t, "", formType, denied.Encode())
	for _, name := range []string{"confirms", "fails", "redirects", "resets", "garbles", "gone", "refuses", "garbles-challenge", "denied"} {
		eventually(t, "the verification of "+name, func() bool { return w.count("GET callback/"+name) > 0 })
	}
}

// askWrongly has secrets where none belong, and where they are wrong.
func (w *canaryFixture) askWrongly(t *testing.T) {
	t.Helper()
	good := "hub.mode=subscribe&hub.topic=" + url.QueryEscape(w.topic("good")) + "&hub.callback=" + url.QueryEscape(w.callback("confirms"))
	for name, ask := range map[string]struct{ query, contentType, body, header string }{
		"too long":            {"", formType, good + "&hub.secret=" + strings.Repeat(canarySecret, 10), ""},
		"verify token":        {"", formType, good + "&hub.verify_token=" + strings.Repeat(canarySecret, 30), ""},
		"badly encoded":       {"", formType, good + "&hub.secret=" + canarySecret + "%zz", ""},
		"no UTF-8":            {"", formType, good + "&hub.secret=" + canarySecret + "%ff", ""},
		"given twice":         {"", formType, good + "&hub.secret=" + canarySecret + "&hub.secret=1" + canarySecret, ""},
		"in the query":        {"?hub.secret=" + canarySecret, formType, good + "&hub.mode=x", ""},
		"in the path":         {canarySecret, formType, good, ""},
		"as the mode":         {"", formType, "hub.mode=" + canarySecret, ""},
		"as the lease":        {"", formType, good + "&hub.lease_seconds=" + canarySecret, ""},
		"as the callback":     {"", formType, "hub.mode=subscribe&hub.topic=" + url.QueryEscape(w.topic("good")) + "&hub.callback=" + canarySecret, ""},
		"in userinfo":         {"", formType, "hub.mode=subscribe&hub.topic=" + url.QueryEscape(w.topic("good")) + "&hub.callback=http://u:" + canarySecret + "@c.example/", ""},
		"as a private host":   {"", formType, "hub.mode=subscribe&hub.topic=" + url.QueryEscape(w.topic("good")) + "&hub.callback=http://10.0.0.1/" + canarySecret, ""},
		"as the media type":   {"", canarySecret, good, ""},
		"as a boundary":       {"", "multipart/form-data; boundary=" + canarySecret, good + "&hub.secret=" + canarySecret, ""},
		"as the topic":        {"", "text/plain", "x", "Link: <" + canarySecret + `>; rel="self"`},
		"as another token":    {"", "text/plain", "x", "Authorization: Bearer " + canaryToken},
		"as a broken token":   {"", "text/plain", "x", "Authorization: Bearer " + canaryToken + " " + canaryToken},
		"as Basic":            {"", "text/plain", "x", "Authorization: Basic " + canaryToken},
		"in a ping":           {"", formType, "hub.mode=publish&hub.url=" + canarySecret, "Authorization: Bearer " + w.token},
		"in a ping, no token": {"", formType, "hub.mode=publish&hub.url=" + url.QueryEscape(w.topic("good")) + "&hub.secret=" + canarySecret, "Authorization: Bearer " + canaryToken},
	} {
		header := []string{"X-Hub-Signature: " + canarySecret}
		if ask.header != "" {
			header = append(header, ask.header)
		}
		if ask.contentType == "text/plain" && !strings.HasPrefix(ask.header, "Link") {
			header = append(header, w.links("good"))
		}
		if status := w.post(t, ask.query, ask.contentType, ask.body, header...); status < 400 || status >= 500 {
			t.Errorf("a secret %s is answered %d", name, status)
		}
	}
}

func (w *canaryFixture) links(topic string) string {
	return `Link: <` + w.topic(topic) + `>; rel="self", <` + w.hub + `>; rel="hub"`
}

// publishAll publishes, with what is published and with a ping, and waits until the callbacks
// have got some of it.
func (w *canaryFixture) publishAll(t *testing.T) {
	t.Helper()
	before := map[string]int{}
	names := []string{"confirms", "fails", "redirects", "resets", "garbles"}
	for _, name := range names {
		before[name] = w.count("POST callback/" + name)
	}
	authorization := "Authorization: Bearer " + w.token
	if status := w.post(t, "", "text/plain", "hello", w.links("good"), authorization); status != http.StatusOK {
		t.Fatalf("publishing is answered %d", status)
	}
	ping := url.Values{"hub.mode": {"publish"}, "hub.url": {w.topic("good")}}
	if status := w.post(t, "", formType, ping.Encode(), authorization); status != http.StatusNoContent {
		t.Fatalf("a ping is answered %d", status)
	}
	// A subscription whose record is damaged gets nothing any more.
	for _, name := range names[:1] {
		eventually(t, "deliveries to "+name, func() bool { return w.count("POST callback/"+name) > before[name] })
	}
	if before["fails"] == 0 {
		for _, name := range names {
			eventually(t, "two attempts at "+name, func() bool { return w.count("POST callback/"+name) > 0 })
		}
	}
}

// commands runs those that work on a store without a hub.
func (w *canaryFixture) commands(t *testing.T, store canaryStore) {
	t.Helper()
	for _, command := range []string{"export", "backup"} {
		file := filepath.Join(t.TempDir(), command)
		out, _ := w.command(t, append([]string{command, "--output", file, "--log-level", "debug"}, store.flags...)...)
		w.keep("stdout of "+command, out)
		if command == "export" {
			out, _ = w.command(t, "import", "--input", file, "--store", "pebble:"+filepath.Join(t.TempDir(), "new"), "--log-level", "debug")
			w.keep("stdout of import", out)
		}
	}
}

// refusals are starts that fail, with something secret in what was said.
func (w *canaryFixture) refusals(t *testing.T) {
	t.Helper()
	config := privateFile(t, "store: [\"redis://:"+canaryPassword+"@127.0.0.1:1/0\"]\nproxy: {a: "+canaryPassword+"}\n")
	for _, args := range [][]string{
		{"--config", config},
		{"--config", privateFile(t, "store:\n\t- redis://:"+canaryPassword+"@h\n")},
		{"--config", privateFile(t, "store: redis://:"+canaryPassword+"@h:port/0\n")},
		{"--store", "redis://u:" + canaryPassword + "@h:1:2/x"},
		{"--store", "redis//u:" + canaryPassword + "@h"},
		{"--store", "rediss://u:" + canaryPassword + "@127.0.0.1:1/0?tls=" + canaryPassword},
		{"--store", "redis://127.0.0.1:1/0", "--redis-password-file", privateFile(t, canaryPassword), "--redis-replicas", "-1"},
		{"--proxy", "http://u:" + canaryPassword + "@h:port/", "--proxy-filters"},
		{"--proxy", "http://u:" + canaryPassword + "@127.0.0.1:9/"},
		{"--proxy", "socks5://u:" + canaryPassword + "@127.0.0.1:9/", "--proxy-filters"},
		{"--url", "https://u:" + canaryPassword + "@hub.example/websub/"},
		{"export", "--output", filepath.Join(t.TempDir(), "no", "x"), "--store", "redis://u:" + canaryPassword + "@127.0.0.1:1/99999999999"},
	} {
		out, code := w.command(t, append(args, "--log-level", "debug")...)
		if w.keep("stdout of a refusal", out); code == 0 {
			t.Errorf("%q is not refused", args)
		}
	}
}

// damagePebble cuts the last byte of subscriptions and requests, so that secrets are in
// records that cannot be read. One subscription is left whole.
func damagePebble(t *testing.T, dir string) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, kind := range []byte{0x01, 0x0c} {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			if value := it.Value(); !strings.Contains(string(value), "/callback/confirms/") {
				err = errors.Join(err, db.Set(it.Key(), value[:len(value)-1], pebble.Sync))
			}
		}
		if err := errors.Join(err, it.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// silent says nothing of what Pebble does.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// damageRedis does so in Redis.
func damageRedis(t *testing.T, redis *redistest.Server) {
	t.Helper()
	for _, pattern := range []string{"*:subs", "*:requests"} {
		for _, key := range redis.Do(t, "KEYS", pattern).([]any) {
			fields := redis.Do(t, "HGETALL", key.(string)).([]any)
			for i := 0; i+1 < len(fields); i += 2 {
				if value := fields[i+1].(string); !strings.Contains(value, "/callback/confirms/") {
					redis.Do(t, "HSET", key.(string), fields[i].(string), value[:len(value)-1])
				}
			}
		}
	}
}
