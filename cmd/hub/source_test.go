package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/internal/redistest"
	"carillon/operator"
)

// publishAs publishes with a token; "": without one.
func publishAs(t *testing.T, address, hub, topic, token string) (status int, said string) {
	t.Helper()
	return sendAs(t, address, token, "text/plain", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub), "news")
}

// pingAs pings with a token; "": without one.
func pingAs(t *testing.T, address, topic, token string) (status int, said string) {
	t.Helper()
	return sendAs(t, address, token, "application/x-www-form-urlencoded", "", url.Values{"hub.mode": {"publish"}, "hub.url": {topic}}.Encode())
}

func sendAs(t *testing.T, address, token, contentType, link, body string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if link != "" {
		req.Header.Set("Link", link)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if status, said, err = answer(http.DefaultClient.Do(req)); err != nil {
		t.Fatal(err)
	}
	return status, said
}

// addSource registers a Source by the command and returns its token, which stands alone on a line.
func addSource(t *testing.T, store, name string, prefixes ...string) (token string) {
	t.Helper()
	args := []string{"source", "add", name, "--store", store}
	for _, p := range prefixes {
		args = append(args, "--topic-prefix", p)
	}
	out := mustRun(t, args...)
	token = strings.TrimSuffix(out, "\n")
	if !strings.HasPrefix(token, "carillon_") || strings.ContainsAny(token, " \n") {
		t.Fatalf("hub source add printed %q", out)
	}
	return token
}

// Sources are registered, rotated and revoked while a hub on Pebble runs, and count at once. No output
// shows a token.
func TestSourcesOfARunningHub(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	store := "pebble:" + t.TempDir()
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", freePort(t))
	u, _ := url.Parse(hub)
	s.setHub(hub, 0)
	start := func() *process {
		return startHub(t, "--listen", u.Host, "--admin", "127.0.0.1:0", "--store", store, "--publishers", "registered", "--log-level", "debug")
	}
	p := start()
	eventually(t, "the line that says what to do", func() bool {
		return strings.Contains(p.log.String(), "hub source add NAME --topic-prefix URL")
	})
	var tokens []string
	want := func(what string, status int, topic, token string) {
		t.Helper()
		if got, said := publishAs(t, hub, hub, s.topicURL(topic), token); got != status {
			t.Errorf("%s: %d %s; want %d", what, got, said, status)
		}
		if got, said := pingAs(t, hub, s.topicURL(topic), token); got != status && !(status == 200 && got == 204) {
			t.Errorf("%s: a ping is %d %s; want %d", what, got, said, status)
		}
	}
	want("before there is a Source", 401, "a", "")
	one := addSource(t, store, "one", s.topicURL("a"), s.URL+"/elsewhere")
	two := addSource(t, store, "two", s.topicURL("b"))
	tokens = append(tokens, one, two)
	want("the first Source", 200, "a", one)
	want("the second", 200, "b", two)
	want("another's topic", 403, "b", one)
	want("a topic that begins so", 403, "ab", one)
	want("no token", 401, "a", "")
	want("a wrong token", 401, "a", one+"x")

	rotated := strings.TrimSpace(mustRun(t, "source", "rotate", "one", "--store", store))
	tokens = append(tokens, rotated)
	want("the token of before a rotation", 401, "a", one)
	want("the token of a rotation", 200, "a", rotated)

	mustRun(t, "source", "revoke", "one", "--store", store)
	want("a revoked token", 401, "a", rotated)
	want("the other Source", 200, "b", two)
	p.kill()
	logs := p.log.String()
	p = start()
	want("a revoked token, after a kill", 401, "a", rotated)
	want("the other Source, after a kill", 200, "b", two)
	if strings.Contains(p.log.String(), "hub source add") {
		t.Error("a hub with a Source says that there is none")
	}

	list := mustRun(t, "source", "list", "--store", store, "--json")
	var all []map[string]any
	if err := json.Unmarshal([]byte(list), &all); err != nil || len(all) != 1 || all[0]["name"] != "two" {
		t.Errorf("the list is %s, %v", list, err)
	}
	_, metrics := look(p.ready["admin"], "/metrics")
	_, page := look(p.ready["admin"], "/")
	if !strings.Contains(metrics, "carillon_source_registered 1") || !strings.Contains(
		metrics, `carillon_hub_publishers_refused_total{kind="publish",reason="unknown"}`,
	) {
		t.Error("the metrics do not tell of Sources")
	}
	for _, token := range tokens {
		if strings.Contains(logs+p.log.String()+metrics+page+list+mustRun(t, "source", "list", "--store", store), token) {
			t.Error("a token is told")
		}
	}
	stopAndLookForTokens(t, p, store, tokens)
}

// stopAndLookForTokens ends the hub and looks for tokens in its files and in an export.
func stopAndLookForTokens(t *testing.T, p *process, store string, tokens []string) {
	t.Helper()
	if err := p.stop(t); err != nil {
		t.Fatal(err)
	}
	kept := mustRun(t, "export", "--store", store)
	if !strings.Contains(kept, `"kind":"source","name":"two"`) {
		t.Error("an export does not have the Source")
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(store, "pebble:"), "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kept += string(text)
	}
	for _, token := range tokens {
		if strings.Contains(kept, token) {
			t.Error("a token is kept")
		}
	}
}

// Of two hubs on one Redis each takes up within seconds who may publish.
func TestSourcesOfTwoHubs(t *testing.T) {
	t.Parallel() // it waits, mostly
	redis := redistest.Start(t)
	s := newSink(t)
	const hub = "http://127.0.0.1:9/websub/" // as behind a load balancer
	s.setHub(hub, 0)
	var doors []string
	for range 2 {
		p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hub, "--store", redis.URL(), "--publishers", "registered")
		eventually(t, "readiness", p.isReady)
		doors = append(doors, "http://"+p.ready["listen"]+"/websub/")
	}
	// both returns how long it took until both hubs answered so.
	both := func(what string, status int, topic, token string) time.Duration {
		t.Helper()
		begun := time.Now()
		for _, door := range doors {
			eventually(t, what, func() bool {
				got, _ := publishAs(t, door, hub, s.topicURL(topic), token)
				return got == status
			})
		}
		return time.Since(begun)
	}
	token := addSource(t, redis.URL(), "one", s.topicURL("a"))
	both("the new Source", 200, "a", token)
	both("another topic", 403, "b", token)
	both("no token", 401, "a", "")
	mustRun(t, "source", "revoke", "one", "--store", redis.URL())
	t.Logf("a revoked token was refused by both hubs after %s", both("the revoked Source", 401, "a", token))
}

// A command that cannot be carried out prints one line with the remedy, and no token.
func TestSourceRefusals(t *testing.T) {
	t.Parallel()
	store, dir := "pebble:"+t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "token")
	said := mustRun(t, "source", "add", "one", "--topic-prefix", "https://a.example/x,y", "--store", store, "--token-file", file)
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(text), "carillon_") || strings.Contains(said, "carillon_") {
		t.Errorf("the token's file has %q, mode %v, %v; on stdout is %q", text, info.Mode(), err, said)
	}
	var shown operator.NewSource
	as := mustRun(t, "source", "add", "json", "--topic-prefix", "https://a.example/", "--store", store, "--json")
	if err := json.Unmarshal([]byte(as), &shown); err != nil || shown.Name != "json" || !strings.HasPrefix(shown.Token, "carillon_") || shown.Issued.IsZero() {
		t.Errorf("a Source as JSON: %s %v", as, err)
	}
	if gone := mustRun(t, "source", "revoke", "json", "--store", store, "--json"); gone != "{}\n" {
		t.Errorf("a revoked Source as JSON: %s", gone)
	}
	if list := mustRun(t, "source", "list", "--store", store); !strings.Contains(list, "https://a.example/x,y\n") {
		t.Errorf("the list is\n%s", list)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a name twice": {[]string{"add", "one", "--topic-prefix", "https://b.example/"}, "hub source rotate"},
		"a token's file twice": {[]string{
			"add", "two", "--topic-prefix", "https://b.example/", "--token-file", file,
		}, "there is such a file already"},
		"a token's file nowhere": {[]string{"add", "two", "--topic-prefix", "https://b.example/", "--token-file", dir + "/no/where"}, "--token-file"},
		"no prefix":              {[]string{"add", "two"}, "missing flags: --topic-prefix"},
		"a prefix that is none":  {[]string{"add", "two", "--topic-prefix", "b.example"}, "must be an absolute URL"},
		"a name that is none":    {[]string{"add", "a b", "--topic-prefix", "https://b.example/"}, "is not a name"},
		"to revoke nobody":       {[]string{"revoke", "two"}, `there is no Source "two": hub source list`},
		"to rotate nobody":       {[]string{"rotate", "two"}, `there is no Source "two": hub source list`},
		"to do nothing":          {nil, `expected one of "add"`},
		"of no store":            {[]string{"list", "--store", "pebble:" + dir + "/none"}, "there is no store"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"source"}, test.args...)
			if len(args) > 1 && args[1] != "list" {
				args = append(args, "--store", store)
			}
			code, stdout, stderr := runCommand(t.Context(), args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "carillon_") {
				t.Errorf("status %d, stdout %q, stderr %q; want a failure that says %q", code, stdout, stderr, test.want)
			}
		})
	}
	mustRun(t, "source", "rotate", "one", "--store", store, "--token-file", file)
	if again, err := os.ReadFile(file); err != nil || string(again) == string(text) {
		t.Errorf("a rotation left the token's file as it was (%v)", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("beside the token's file there is something else: %v, %v", names, err)
	}
}

// Tokens that others could read on their way are worth a warning.
func TestPublishersWithoutTLS(t *testing.T) {
	t.Parallel()
	for hub, warns := range map[string]bool{"http://hub.example/": true, "https://hub.example/": false, "http://127.0.0.1:1/": false} {
		p := startHub(
			t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store",
			"pebble:"+t.TempDir(), "--url", hub, "--publishers", "registered",
		)
		if err := p.stop(t); err != nil { // all of its log is here then
			t.Error(err)
		}
		if got := strings.Contains(p.log.String(), "is not https"); got != warns {
			t.Errorf("%s: warned %t, want %t", hub, got, warns)
		}
	}
}

// Registering a Source at a hub that lets every client publish prints a warning, also where the
// command cannot find out. A token that went to a file is not printed.
func TestSourcesMeanNothingToAnOpenHub(t *testing.T) {
	t.Parallel()
	store, dir := "pebble:"+t.TempDir(), t.TempDir()
	said := func(args ...string) string {
		t.Helper()
		code, _, stderr := runCommand(t.Context(), append(append([]string{"source"}, args...), "--store", store)...)
		if code != 0 {
			t.Fatalf("%q: status %d, %s", args, code, stderr)
		}
		return stderr
	}
	const may, everybody = "where the hub runs with --publishers registered", "runs with --publishers open: everybody may publish"
	toFile := said("add", "one", "--topic-prefix", "https://a.example/", "--token-file", filepath.Join(dir, "one"))
	if !strings.Contains(toFile, may) || !strings.Contains(toFile, "Its token is in "+dir) || strings.Contains(toFile, "shown") {
		t.Errorf("with no hub: %s", toFile)
	}
	for mode, want := range map[string]string{"open": everybody, "registered": ""} {
		p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store, "--publishers", mode)
		for _, args := range [][]string{{"add", mode, "--topic-prefix", "https://a.example/"}, {"rotate", mode}, {"list"}, {"revoke", mode}} {
			if got := said(args...); !strings.Contains(got, want) || want == "" && strings.Contains(got, "--publishers") {
				t.Errorf("%s: hub source %s says %q; want %q", mode, args[0], got, want)
			}
		}
		if _, page := look(p.ready["admin"], "/sources"); strings.Contains(page, "everybody may publish") != (want != "") {
			t.Errorf("%s: the page of Sources is\n%s", mode, page)
		}
		if _, version := look(p.ready["admin"], "/api/v1/version"); !strings.Contains(version, `"publishers":"`+mode+`"`) {
			t.Errorf("%s: /version is %s", mode, version)
		}
		if err := p.stop(t); err != nil {
			t.Fatal(err)
		}
	}
}
