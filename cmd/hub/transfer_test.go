package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/cmd/internal/copies"
	"carillon/internal/redistest"
	"carillon/transfer"
)

// runCommand runs the program with the arguments in this process.
func runCommand(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = run(ctx, args, &out, &log)
	return code, out.String(), log.String()
}

// mustRun is a command that ends with status 0.
func mustRun(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := runCommand(t.Context(), args...)
	if code != 0 {
		t.Fatalf("hub %s: status %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

const (
	movedCallbacks = 10
	movedOwed      = 5 // notifications of which no delivery was taken before the move
)

// A hub grows from Pebble to two processes on Redis and shrinks again: each subscriber gets its
// pending notifications, in order and once, and none that it had.
func TestAHubMoves(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newSink(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	hub := "http://" + address + "/websub/"
	s.setHub(hub, 0)
	pebble, back := "pebble:"+filepath.Join(t.TempDir(), "first"), "pebble:"+filepath.Join(t.TempDir(), "second")
	start := func(store, listen string) *process {
		return startHub(t, "--listen", listen, "--admin", "127.0.0.1:0", "--url", hub,
			"--store", store, "--retry-first", "20ms", "--retry-max", "200ms", "--log-level", "warn")
	}
	move := func(from, to string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "export")
		mustRun(t, "export", "--store", from, "--output", file)
		mustRun(t, "import", "--store", to, "--input", file)
	}

	p := start(pebble, address)
	for i := range movedCallbacks {
		if status, body, err := subscribe(hub, s.topicURL("0"), s.callbackURL(fmt.Sprint(i)), nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, body, err)
		}
	}
	s.await(t, "the verifications", func() bool { return len(s.verified) == movedCallbacks })
	var want []string
	everyone := func(bodies ...string) {
		t.Helper()
		want = append(want, bodies...)
		s.await(t, "the deliveries", func() bool {
			for i := range movedCallbacks {
				if !s.has(fmt.Sprint(i), want[len(want)-1]) {
					return false
				}
			}
			return true
		})
	}
	owe := func(round string) (bodies []string) {
		t.Helper()
		s.setHub(hub, 1) // everything is refused
		for i := range movedOwed {
			bodies = append(bodies, fmt.Sprintf("%s %d", round, i))
			mustPublish(t, address, hub, s.topicURL("0"), bodies[i])
		}
		return bodies
	}
	mustPublish(t, address, hub, s.topicURL("0"), "first")
	everyone("first")
	owed := owe("on pebble")
	if err := p.stop(t); err != nil {
		t.Fatal(err)
	}

	move(pebble, redis.URL())
	s.setHub(hub, 0)
	one, two := start(redis.URL(), address), start(redis.URL(), "127.0.0.1:0")
	everyone(owed...)
	mustPublish(t, two.ready["listen"], hub, s.topicURL("0"), "by the second")
	everyone("by the second")
	code, _, stderr := runCommand(t.Context(), "import", "--store", redis.URL(), "--merge", "--input", os.Args[0])
	if code == 0 || !strings.Contains(stderr, "not an export") {
		t.Errorf("a file that is no export: status %d, %s", code, stderr)
	}
	refuseBesideHubs(t, redis.URL())
	owed = owe("on redis")
	for _, p := range []*process{one, two} {
		if err := p.stop(t); err != nil {
			t.Fatal(err)
		}
	}

	move(redis.URL(), back)
	s.setHub(hub, 0)
	start(back, address)
	everyone(owed...)
	mustPublish(t, address, hub, s.topicURL("0"), "last")
	everyone("last")
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range movedCallbacks {
		var got []string
		for _, a := range s.got[fmt.Sprint(i)] {
			got = append(got, a.body)
		}
		if !slices.Equal(got, want) {
			t.Errorf("callback %d got\n%q\nand should have got\n%q", i, got, want)
		}
	}
}

// mustPublish publishes by the process at the address, which is of the hub.
func mustPublish(t *testing.T, address, hub, topic, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/websub/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub))
	if status, answer, err := answer(http.DefaultClient.Do(req)); err != nil || status != http.StatusOK {
		t.Fatalf("publishing: %d %s %v", status, answer, err)
	}
}

// refuseBesideHubs: an import behind the back of hubs is refused, and an export
// says that it is no single moment.
func refuseBesideHubs(t *testing.T, store string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export")
	code, _, stderr := runCommand(t.Context(), "export", "--store", store, "--output", file)
	if code != 0 || !strings.Contains(stderr, "not a single moment in time") {
		t.Errorf("an export beside hubs: status %d, %s", code, stderr)
	}
	code, _, stderr = runCommand(t.Context(), "import", "--store", store, "--merge", "--input", file)
	if code == 0 || !strings.Contains(stderr, "hubs are working on the store (2): stop them first") {
		t.Errorf("an import beside hubs: status %d, %s", code, stderr)
	}
}

// aStore makes a store with one subscription request and returns --store for it.
func aStore(t *testing.T) string {
	t.Helper()
	store := "pebble:" + t.TempDir()
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store)
	form := "http://" + p.ready["listen"] + "/websub/"
	if status, body, err := subscribe(
		form, "http://127.0.0.1:1024/topic", "http://127.0.0.1:1024/callback", nil,
	); err != nil || status != http.StatusAccepted {
		t.Fatalf("subscribing: %d %s %v", status, body, err)
	}
	p.kill() // before the topic's server was found to be away for good
	return store
}

// A file with an export is its owner's alone, is there when it is whole, and
// leaves nothing beside it.
func TestExportToAFile(t *testing.T) {
	t.Parallel()
	store, dir := aStore(t), t.TempDir()
	file := filepath.Join(dir, "export.jsonl")
	if err := os.WriteFile(file, []byte("an older one"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := mustRun(t, "export", "--store", store, "--output", file)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "1 requests") || !strings.Contains(out, file) {
		t.Errorf("it says %q", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v; want 0600", info.Mode(), err)
	}
	stream, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Verify(t.Context(), bytes.NewReader(stream), transfer.ImportConfig{}); err != nil {
		t.Error(err)
	}
	onStdout := mustRun(t, "export", "--store", store)
	_, a, _ := strings.Cut(string(stream), "\n")
	_, b, _ := strings.Cut(onStdout, "\n")
	if a[:strings.LastIndex(a, `"sha256"`)] != b[:strings.LastIndex(b, `"sha256"`)] {
		t.Error("standard output got another export than the file")
	}
	code, _, stderr := runCommand(t.Context(), "export", "--store", store, "--output", dir)
	if code == 0 || !strings.Contains(stderr, "no regular file") {
		t.Errorf("--output with a directory: status %d, %s", code, stderr)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	code, _, stderr = runCommand(stopped, "export", "--store", store, "--output", file)
	if code == 0 || !strings.Contains(stderr, "stopped: the export is not whole") {
		t.Errorf("an export that was stopped: status %d, %s", code, stderr)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, stream) {
		t.Errorf("an export that was stopped changed the file (%v)", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("beside the file there is something else: %v, %v", names, err)
	}
}

// An export or import that is not possible is one line on stderr with the remedy.
func TestTransferRefusals(t *testing.T) {
	t.Parallel()
	store, dir := aStore(t), t.TempDir()
	whole, cut := filepath.Join(dir, "whole"), filepath.Join(dir, "cut")
	mustRun(t, "export", "--store", store, "--output", whole)
	stream, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, stream[:len(stream)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := t.TempDir()
	startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+inUse)
	empty := filepath.Join(dir, "nothing")

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"export of no store":         {[]string{"export", "--store", "pebble:" + empty}, "there is no store"},
		"export of an empty place":   {[]string{"export", "--store", "pebble:" + t.TempDir()}, "there is no store"},
		"export of a store in use":   {[]string{"export", "--store", "pebble:" + inUse}, "stop the hub first"},
		"export without a place":     {[]string{"export", "--store", store, "--output", filepath.Join(dir, "no", "where")}, "--output"},
		"export of no engine":        {[]string{"export", "--store", "paper:x"}, "the engine must be"},
		"export of a Redis away":     {[]string{"export", "--store", "redis://127.0.0.1:9/0"}, "the store is not ready"},
		"import into a store in use": {[]string{"import", "--store", "pebble:" + inUse, "--input", whole}, "stop the hub first"},
		"import of no file":          {[]string{"import", "--store", "pebble:" + empty, "--input", empty}, "--input"},
		"import of a cut-off file": {[]string{
			"import", "--store", "pebble:" + empty, "--input", cut,
		}, "cut off: it has no last line (nothing was written)"},
		"import over what is there":   {[]string{"import", "--store", store, "--input", whole}, "not empty: give an empty one, or --merge"},
		"import of another file":      {[]string{"import", "--store", "pebble:" + empty, "--input", os.Args[0]}, "not an export"},
		"import with a strange word":  {[]string{"import", "whole"}, "unexpected argument"},
		"readiness of no slash":       {[]string{"ready", "--path", "readyz"}, "--path"},
		"readiness without patience":  {[]string{"ready", "--timeout", "0s"}, "--timeout"},
		"readiness of nobody":         {[]string{"ready", "--admin", "127.0.0.1:9"}, "not ready"},
		"readiness of no address":     {[]string{"ready", "--admin", "a b:c"}, "--admin a b:c"},
		"readiness of an unknown one": {[]string{"ready", "--admin", "127.0.0.1"}, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runCommand(t.Context(), test.args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("status %d, stdout %q, stderr %q; want a failure that says %q", code, stdout, stderr, test.want)
			}
		})
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("a refusal made the store's directory")
	}
	mustRun(t, "import", "--store", store, "--input", whole, "--merge")
}

// From a pipe the damage shows only after a part is written: the operator gets an error.
func TestImportFromAPipe(t *testing.T) {
	t.Parallel()
	stream := mustRun(t, "export", "--store", aStore(t))
	importing := func(ctx context.Context, stdin io.Reader, store string, more ...string) (string, error) {
		var out bytes.Buffer
		f := copying[copies.Import]{storeFlags: storeFlags{Store: store}, Command: copies.Import{Merge: len(more) > 0}}
		err := f.run(ctx, slog.New(slog.DiscardHandler), stdin, &out, io.Discard)
		return out.String(), err
	}
	target := "pebble:" + t.TempDir()
	_, err := importing(t.Context(), strings.NewReader(stream[:strings.LastIndex(stream, `{"kind":"end"`)]), target)
	if err == nil || !strings.Contains(err.Error(), "empty the store, and import a whole export") {
		t.Errorf("a stream that was cut off: %v", err)
	}
	_, err = importing(t.Context(), strings.NewReader(""), target, "--merge")
	if err == nil || !strings.Contains(err.Error(), "nothing was imported") {
		t.Errorf("an empty stream: %v", err)
	}

	// A pipe that stays silent ends with the context, and the next import completes it.
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	go func() {
		header, rest, _ := strings.Cut(stream, "\n")
		request, _, _ := strings.Cut(rest, "\n")
		_, _ = io.WriteString(to, header+"\n"+request+"\n")
		_, _ = io.WriteString(to, `{"kind":`) // and no more: the reader waits
		cancel()
	}()
	_, err = importing(ctx, from, "pebble:"+t.TempDir())
	if err == nil || !strings.HasPrefix(err.Error(), "stopped: ") {
		t.Errorf("stopped: %v", err)
	}
	out, err := importing(t.Context(), strings.NewReader(stream), target, "--merge")
	if err != nil || !strings.Contains(out, "1 requests") {
		t.Errorf("again: %q, %v", out, err)
	}
}

// An output without a reader does not hold up the end.
func TestExportThatNobodyReads(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	defer from.Close()
	go func() {
		one := make([]byte, 1)
		_, _ = from.Read(one)
		cancel()
	}()
	code := run(ctx, []string{"export", "--store", store}, to, io.Discard)
	if code == 0 {
		t.Error("an export that was stopped ended with status 0")
	}
}

// ready answers for a health check: by status, and with what is wrong.
func TestReadyCommand(t *testing.T) {
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	eventually(t, "readiness", p.isReady)
	_, port, _ := strings.Cut(p.ready["admin"], ":")
	for _, address := range []string{p.ready["admin"], "0.0.0.0:" + port, ":" + port, "[::]:" + port} {
		if out := mustRun(t, "ready", "--admin", address); out != "ready\n" {
			t.Errorf("ready --admin %s says %q", address, out)
		}
	}
	t.Setenv("HUB_ADMIN", p.ready["admin"])
	if out := mustRun(t, "ready", "--path", "/healthz"); out != "ok\n" {
		t.Errorf("ready --path /healthz says %q", out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "store: it is away")
		case "/moved":
			http.Redirect(w, r, "/fine", http.StatusFound)
		case "/hangs":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/readyz": "store: it is away", "/moved": "302", "/hangs": "deadline exceeded"} {
		code, _, stderr := runCommand(t.Context(), "ready", "--admin", server.Listener.Addr().String(), "--path", path, "--timeout", "500ms")
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q; want 1 and %q", path, code, stderr, want)
		}
	}
}
