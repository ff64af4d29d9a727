package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/internal/redistest"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/subscription"
)

// askFixture is a hub with a topic, a callback that takes everything and one that takes nothing.
type askFixture struct {
	hub       *process
	store     string
	good, bad *sink
	topic     string
	ids       map[string]string // of the subscriptions, by callback
	published []string          // the notifications' IDs
}

// newAskFixture publishes two notifications and waits until it stands with them as it will.
func newAskFixture(t *testing.T, store string) *askFixture {
	t.Helper()
	v := &askFixture{store: store, good: newSink(t), bad: newSink(t), ids: map[string]string{}}
	port := freePort(t)
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", port)
	v.good.setHub(hub, 0)
	v.bad.setHub(hub, 1)
	v.hub = startHub(
		t, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--store",
		store, "--retry-first", "1h", "--retry-max", "2h",
	)
	v.topic = v.good.topicURL("a")
	for name, s := range map[string]*sink{"good": v.good, "bad": v.bad} {
		callback := s.callbackURL(name)
		v.ids[name] = subscription.NewID(v.topic, callback).String()
		if status, text, err := subscribe(hub, v.topic, callback, nil); err != nil || status != http.StatusAccepted {
			t.Fatal(status, text, err)
		}
		eventually(t, "a subscription", func() bool {
			status, _ := look(v.hub.ready["admin"], "/api/v1/subscriptions/"+v.ids[name])
			return status == http.StatusOK
		})
	}
	for _, body := range []string{"one", "two"} {
		status, id, err := publish(hub, v.topic, "text/plain", body)
		if err != nil || status != http.StatusOK {
			t.Fatal(status, id, err)
		}
		v.published = append(v.published, strings.TrimSpace(id))
	}
	v.good.await(t, "the deliveries", func() bool { return v.good.has("good", "two") })
	eventually(t, "a failure, and a delivery that is settled", func() bool {
		_, first := look(v.hub.ready["admin"], "/api/v1/notifications/"+v.published[0])
		_, last := look(v.hub.ready["admin"], "/api/v1/notifications/"+v.published[1])
		return strings.Contains(first, `"failing":1`) && strings.Contains(last, `"delivered":1`)
	})
	return v
}

// says runs a command and wants each of the texts in what it prints.
func (v *askFixture) says(t *testing.T, line string, want ...string) string {
	t.Helper()
	out := mustRun(t, append(strings.Fields(line), "--store", v.store)...)
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("hub %s does not say %q:\n%s", line, w, out)
		}
	}
	for _, l := range strings.Split(out, "\n") {
		if len([]rune(l)) > 160 {
			t.Errorf("hub %s has a line of %d characters: %s", line, len([]rune(l)), l)
		}
	}
	return out
}

// refuses runs a command that ends with status 1 and one line.
func (v *askFixture) refuses(t *testing.T, line string, want string) {
	t.Helper()
	code, out, stderr := runCommand(t.Context(), append(strings.Fields(line), "--store", v.store)...)
	// Run within the test it warns of files that a process of its own would not have made so.
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(l string) bool { return l == "" || strings.HasPrefix(l, "{") })
	if code != 1 || out != "" || len(lines) != 1 || !strings.Contains(lines[0], want) {
		t.Errorf("hub %s: status %d, %q and %q; want one line with %q", line, code, out, stderr, want)
	}
}

// looked checks the output of the commands about the village, from a hub or a store at rest.
func (v *askFixture) looked(t *testing.T) {
	t.Helper()
	v.says(t, "topics", "SUBSCRIBERS", "TOPIC", v.topic)
	v.says(t, "topics --failing --contains TOPIC/A", v.topic)
	if out := v.says(t, "topics --contains nothing-of-that"); strings.Contains(out, v.topic) {
		t.Errorf("a topic that was not asked for:\n%s", out)
	}
	v.says(t, "topic "+v.topic, "2, 1 behind, 1 failing", "1/2", v.published[0], v.published[1])
	v.says(t, "subscriptions", v.ids["good"], v.ids["bad"], "idle", "failing")
	if out := v.says(t, "subscriptions --state failing --topic "+v.topic, v.ids["bad"]); strings.Contains(out, v.ids["good"]) {
		t.Errorf("a subscription that does not fail:\n%s", out)
	}
	v.says(t, "show "+v.published[0], "Not delivered to all: 1 of 2 have got it, 1 have not.", v.ids["bad"], "server_error 503")
	v.says(t, "show "+v.published[0]+" --topic "+v.topic, "Not delivered to all")
	v.says(t, "show "+v.ids["bad"], v.bad.callbackURL("bad"), "failing: 1 failure in a row", "0; the newest is ")
	v.refuses(t, "show 6ba7b810-9dad-51d1-80b4-00c04fd430c8", "there is no subscription and no notification 6ba7b810")
	v.refuses(t, "topic https://nowhere.test/", "https://nowhere.test/")
	v.refuses(t, "remove "+v.ids["good"], "give --yes")
	v.refuses(t, "trim "+v.topic+" --before 2", "give --yes")
}

// Commands see and repair what a hub on Pebble does while it runs, and see the same in its store
// when it does not.
func TestCommandsOfAnOperator(t *testing.T) {
	t.Parallel()
	v := newAskFixture(t, "pebble:"+t.TempDir())
	v.looked(t)
	v.says(t, "show "+v.ids["bad"], "ATTEMPT ENDED")

	v.bad.setHub(v.hub.ready["url"], 0)
	v.says(t, "retry "+v.ids["bad"], "tries "+v.ids["bad"]+" again now")
	v.bad.await(t, "the retry", func() bool { return v.bad.has("bad", "two") })
	eventually(t, "a delivery to all", func() bool {
		return strings.Contains(mustRun(t, "show", v.published[1], "--store", v.store), "Delivered to all: 2 of 2.")
	})
	v.refuses(t, "retry "+v.ids["bad"], "")

	v.says(t, "replay "+v.ids["good"]+" --from 1 --to 1", "delivers 1 to 1 to "+v.ids["good"]+" once more now")
	v.good.await(t, "the replay", func() bool { return len(v.good.got["good"]) == 3 })
	if again := v.good.got["good"][2]; again.body != "one" || again.id != v.published[0] {
		t.Errorf("the replay delivered %q with the ID %s", again.body, again.id)
	}
	v.refuses(t, "replay "+v.ids["good"]+" --from 9", "")
	v.refuses(t, "replay "+v.ids["good"]+" --from 0", "--from is the number of a notification: 1 or more")
	v.refuses(t, "replay "+v.ids["good"]+" --from 2 --to 1", "--to 1 comes before --from 2")
	v.refuses(t, "trim "+v.topic+" --before 4 --yes", "--before 4 is beyond the newest, which is 2: give 3 at most")

	v.says(t, "trim "+v.topic+" --before 2 --yes", "1 notification and ")
	v.says(t, "remove "+v.ids["bad"]+" --yes --reason gone", "removed "+v.ids["bad"])
	v.refuses(t, "show "+v.ids["bad"], "there is no subscription")

	v.says(t, "trim "+v.topic+" --before 3 --yes", "1 notification and ")
	if out := v.says(t, "topic "+v.topic, "empty; the last number was 2"); strings.Contains(out, "oldest kept") {
		t.Errorf("an empty log keeps something:\n%s", out)
	}

	v.says(t, "log-level", "info\n")
	v.says(t, "log-level debug", "debug\n")
	if out := v.says(t, "log-level --json", "debug"); !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
	if log := v.hub.log.String(); strings.Contains(log, "/callback/") {
		t.Errorf("the log tells of a callback's path:\n%s", log)
	}
}

// With --json a command prints the API's answer.
func TestCommandsPrintTheAPI(t *testing.T) {
	t.Parallel()
	v := newAskFixture(t, "pebble:"+t.TempDir())
	for line, path := range map[string]string{
		"show " + v.published[1]: "/notifications/" + v.published[1],
		"show " + v.ids["good"]:  "/subscriptions/" + v.ids["good"],
		"topics --limit 50":      "/topics?limit=50",
		"subscriptions":          "/subscriptions?limit=50",
		"source list":            "/sources",
	} {
		_, want := look(v.hub.ready["admin"], "/api/v1"+path)
		if got := v.says(t, line+" --json"); !sameJSON(t, got, want) {
			t.Errorf("hub %s --json:\n%s\nthe API:\n%s", line, got, want)
		}
	}
	var both struct {
		Topic operator.Topic `json:"topic"`
		operator.NotificationPage
	}
	out := v.says(t, "topic "+v.topic+" --json")
	if err := json.Unmarshal([]byte(out), &both); err != nil || both.Topic.Head != 2 || len(both.Notifications) != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	if out := v.says(t, "subscriptions --limit 1 --all --json"); strings.Count(out, `"missing_shards"`) != 1 {
		t.Errorf("--all asks in small pages:\n%s", out)
	}
	code, out, stderr := runCommand(t.Context(), "subscriptions", "--limit", "1", "--store", v.store)
	_, after, more := strings.Cut(strings.TrimSpace(stderr), "--after ")
	if code != 0 || !more || strings.Count(out, "\n") != 2 {
		t.Fatalf("a page of one: %d\n%s\n%s", code, out, stderr)
	}
	after, _, _ = strings.Cut(after, "\n")
	if rest := v.says(t, "subscriptions --limit 1 --after "+after); strings.Contains(rest, strings.Fields(strings.Split(out, "\n")[1])[3]) {
		t.Errorf("the second page is the first:\n%s\n%s", out, rest)
	}
}

// sameJSON compares but for what passes by itself.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return fmt.Sprint(timeless(x)) == fmt.Sprint(timeless(y))
}

// timeless is a document without what counts the seconds.
func timeless(doc any) any {
	switch d := doc.(type) {
	case map[string]any:
		for name, value := range d {
			if d[name] = timeless(value); strings.HasSuffix(name, "_seconds") {
				delete(d, name)
			}
		}
	case []any:
		for i := range d {
			d[i] = timeless(d[i])
		}
	}
	return doc
}

// A store without a running hub gives the same answers, and orders to it are carried out when a hub
// runs.
func TestCommandsOnAStoreAtRest(t *testing.T) {
	t.Parallel()
	v := newAskFixture(t, "pebble:"+t.TempDir())
	if err := v.hub.stop(t); err != nil {
		t.Fatal(err)
	}
	v.looked(t)
	v.says(t, "show "+v.ids["bad"], "attempts are in the memory of a hub that runs")
	v.refuses(t, "log-level", "no hub works on the store: start one")
	v.says(t, "replay "+v.ids["good"]+" --from 2", "once more, when it runs")
	v.says(t, "retry "+v.ids["bad"], "again, when it runs")
	v.bad.setHub(v.hub.ready["url"], 0)
	startHub(t, "--listen", v.hub.ready["listen"], "--admin", "127.0.0.1:0", "--store", v.store, "--retry-first", "1h", "--retry-max", "2h")
	v.bad.await(t, "the retry", func() bool { return v.bad.has("bad", "two") })
	v.good.await(t, "the replay", func() bool { return len(v.good.got["good"]) == 3 })
}

// A command on a Redis asks the hubs that work on it.
func TestCommandsOnRedis(t *testing.T) {
	t.Parallel()
	v := newAskFixture(t, redistest.Start(t).URL())
	v.looked(t)
	v.refuses(t, "log-level", "each has its own: say which with --admin-url URL")
	v.bad.setHub(v.hub.ready["url"], 0)
	v.says(t, "retry "+v.ids["bad"], "again now")
	v.bad.await(t, "the retry", func() bool { return v.bad.has("bad", "two") })
}

// A hub elsewhere is asked by its operator's listener, with the operator's token.
func TestCommandsAskElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(), "--admin-token-file", file)
	admin := "http://" + p.ready["admin"]
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the token that the hub made: %v, %v", info, err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no token":            {[]string{"topics", "--admin-url", admin}, "needs the operator's token"},
		"no file":             {[]string{"topics", "--admin-url", admin, "--admin-token-file", file + "x"}, "--admin-token-file: "},
		"no URL":              {[]string{"topics", "--admin-url", p.ready["admin"]}, "is not the URL of an operator's listener"},
		"no hub":              {[]string{"topics", "--admin-url", fmt.Sprintf("http://127.0.0.1:%d", freePort(t))}, "connection refused"},
		"the public listener": {[]string{"topics", "--admin-url", "http://" + p.ready["listen"]}, "that is no operator's listener (--admin)"},
	} {
		code, out, stderr := runCommand(t.Context(), test.args...)
		if code != 1 || out != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d %q %q; want %q", name, code, out, stderr, test.want)
		}
	}
	mustRun(t, "topics", "--admin-url", admin, "--admin-token-file", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(api.TokenVariable, strings.TrimSpace(string(text)))
	if out := mustRun(t, "log-level", "warn", "--admin-url", admin+"/", "--json"); !sameJSON(t, out, `{"level":"warn"}`) {
		t.Errorf("log-level: %s", out)
	}
	if log := p.log.String(); strings.Contains(log, strings.TrimSpace(string(text))) {
		t.Errorf("the log tells the token:\n%s", log)
	}
}

// A client without the token gets health and nothing else, and a changed file ends the sessions of
// before.
func TestOperatorsToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first-token-of-16\n"), 0o604); err != nil {
		t.Fatal(err)
	}
	p := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--url", "http://127.0.0.1:1/",
		"--admin-plain", "--admin-token-file", file, "--store", "pebble:"+t.TempDir(),
	)
	admin := strings.Replace(p.ready["admin"], "0.0.0.0", "127.0.0.1", 1)
	if !strings.Contains(admin, "127.0.0.1") {
		admin = "127.0.0.1" + admin[strings.LastIndex(admin, ":"):]
	}
	read := func(path, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		status, text, err := answer(http.DefaultClient.Do(req))
		if err != nil {
			t.Fatal(err)
		}
		return status, text
	}
	get := func(path, token string) int {
		t.Helper()
		status, _ := read(path, token)
		return status
	}
	for path, want := range map[string][2]int{
		"/healthz": {200, 200}, "/metrics": {401, 200}, "/api/v1/overview": {401, 200},
		"/": {401, 200}, "/nothing": {401, 404},
	} {
		if got := [2]int{get(path, ""), get(path, "first-token-of-16")}; got != want {
			t.Errorf("%s without a token and with it: %v; want %v", path, got, want)
		}
	}
	eventually(t, "readiness", func() bool { return get("/readyz", "") == 200 })
	if code, out := ready("--admin", admin); code != 0 || !strings.HasPrefix(out, "ready") || strings.Contains(out, file) {
		t.Errorf("hub ready: %d %s; want no word of the file", code, out)
	}
	if _, out := read("/readyz", "first-token-of-16"); !strings.Contains(out, "chmod 600") {
		t.Errorf("readiness: %s; want a warning of the file's mode", out)
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the warning of a bad file", func() bool {
		_, out := read("/readyz", "first-token-of-16")
		return strings.Contains(out, "the token of before stands")
	})
	if get("/metrics", "first-token-of-16") != 200 {
		t.Error("a bad file took the token away")
	}
	if err := os.WriteFile(file, []byte("another-token-of-20"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new file", func() bool {
		status, out := read("/readyz", "another-token-of-20")
		return status == 200 && get("/metrics", "another-token-of-20") == 200 && !strings.Contains(out, "the token of before stands")
	})
	if status := get("/metrics", "first-token-of-16"); status == 200 {
		t.Error("the token of before is still taken")
	}
}

// A hub whose operator's listener others could reach does not start as if they could not.
func TestOperatorsListenerIsGuarded(t *testing.T) {
	dir := t.TempDir()
	bad, none := filepath.Join(dir, "bad"), filepath.Join(dir, "no", "where")
	if err := os.WriteFile(bad, []byte("too-short"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(dir, "fresh")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no token":          {[]string{"--admin", "0.0.0.0:0"}, "--admin-token-file FILE"},
		"no token, plain":   {[]string{"--admin", ":0", "--admin-plain"}, "--admin-token-file FILE"},
		"no TLS":            {[]string{"--admin", "0.0.0.0:0", "--admin-token-file", fresh}, "--admin-plain"},
		"a short token":     {[]string{"--admin-token-file", bad}, "16 or more"},
		"no such directory": {[]string{"--admin-token-file", none}, "cannot be made"},
		"a directory":       {[]string{"--admin-token-file", dir}, "is not a file"},
	} {
		args := append(
			[]string{
				"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", "http://127.0.0.1:1/",
				"--store", "pebble:" + filepath.Join(dir, "store"),
			},
			test.args...,
		)
		code, _, stderr := runCommand(t.Context(), args...)
		if code != 1 || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "too-short") {
			t.Errorf("%s: %d %q; want one line with %q", name, code, stderr, test.want)
		}
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("a hub that did not start has made a token")
	}
	t.Setenv(api.TokenVariable, "first-token-of-16")
	if code, _, stderr := runCommand(
		t.Context(), "--admin-token-file", fresh, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
	); code != 1 || !strings.Contains(stderr, "keep one") {
		t.Errorf("two tokens: %d %s", code, stderr)
	}
}

// A certificate outside the system's trust can be named.
func TestAskNamesTheCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	code, _, stderr := runCommand(t.Context(), "topics", "--admin-url", server.URL)
	if code != 1 || !strings.Contains(stderr, "--admin-tls-cert FILE") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %q", code, stderr)
	}
}
