package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"carillon/cmd/internal/copies"
	"carillon/internal/engine"
	"carillon/operator/ask"
	"carillon/store/pebblestore"
)

// A backup that is made while a hub takes publications has every one that was
// acknowledged before; the hub on what is restored delivers what was waiting, and goes
// on.
func TestBackupOfARunningHub(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	port := freePort(t)
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", port)
	s.setHub(hub, 0)
	store := "pebble:" + t.TempDir()
	args := []string{"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--url", hub}
	p := startHub(t, append(args, "--store", store)...)
	topic := s.topicURL("0")
	if status, body, err := subscribe(hub, topic, s.callbackURL("a"), nil); err != nil || status != http.StatusAccepted {
		t.Fatalf("subscribing: %d %s %v", status, body, err)
	}
	s.await(t, "the verification", func() bool { return s.verified["a"] > 0 })
	mustPublish := func(body string) {
		t.Helper()
		if status, answer, err := publish(hub, topic, "text/plain", body); err != nil || status != http.StatusOK {
			t.Fatalf("publishing %s: %d %s %v", body, status, answer, err)
		}
	}
	mustPublish("first")
	s.await(t, "the first", func() bool { return s.has("a", "first") })
	s.setHub(hub, 1) // from here on everything fails, so that it waits
	mustPublish("acknowledged before")

	stop := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() { publishUntil(stop, hub, topic, 0) })
	file := filepath.Join(t.TempDir(), "backup.tar")
	out := mustRun(t, "backup", "--store", store, "--output", file)
	close(stop)
	publisher.Wait()
	if !strings.Contains(out, "It holds secrets") {
		t.Errorf("it says %q", out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v; want mode 0600", info, err)
	}
	p.kill()

	target := "pebble:" + filepath.Join(t.TempDir(), "new")
	out = mustRun(t, "restore", "--store", target, "--input", file)
	if !strings.Contains(out, "restored 1 subscriptions, 0 requests, 0 pings, 1 topics") {
		t.Errorf("it says %q", out)
	}
	s.setHub(hub, 0)
	startHub(t, append(args, "--store", target, "--retry-first", "20ms")...)
	mustPublish("after the restore")
	s.await(t, "what was acknowledged before the backup, and what came after the restore", func() bool {
		return s.has("a", "acknowledged before") && s.has("a", "after the restore")
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string][]string{}
	for _, got := range s.got["a"] {
		ids[got.body] = append(ids[got.body], got.id)
	}
	// A delivery settled just before the backup may come again, as after a kill.
	if len(slices.Compact(ids["first"])) != 1 || len(ids["after the restore"]) != 1 {
		t.Errorf("what was delivered before has the ids %q, what is new %q", ids["first"], ids["after the restore"])
	}
	if ids["first"][0] == ids["after the restore"][0] {
		t.Error("an id was given twice")
	}
}

// A name that is empty, as a script's that has not set its variable, is not standard output,
// where secrets would be seen, and not standard input.
func TestCopyWithoutAName(t *testing.T) {
	t.Parallel()
	for flag, args := range map[string][]string{
		"--output": {"backup", "--store", aStore(t), "--output="},
		"--input":  {"restore", "--store", "pebble:" + t.TempDir(), "--input="},
	} {
		code, out, told := runCommand(t.Context(), args...)
		if code == 0 || out != "" || !strings.Contains(told, flag+" is empty") {
			t.Errorf("%s: status %d, %d bytes on standard output, and it says %s", args[0], code, len(out), told)
		}
	}
}

// Where no hub runs the command makes the backup itself; standard output takes it
// too, and so does standard input.
func TestBackupWithoutAHub(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	code, stream, told := runCommand(t.Context(), "backup", "--store", store, "--output", "-")
	if code != 0 || strings.Contains(told, `"ERROR"`) || strings.Contains(told, "broken off") {
		t.Errorf("status %d, and of a backup that is whole it says %s", code, told)
	}
	target := t.TempDir()
	f := copying[copies.Restore]{storeFlags: storeFlags{Store: "pebble:" + target}, Command: copies.Restore{Input: "-"}}
	var out bytes.Buffer
	if err := f.run(t.Context(), slog.New(slog.DiscardHandler), strings.NewReader(stream), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1 requests") {
		t.Errorf("it says %q", &out)
	}
	export := func(store string) string {
		_, records, _ := strings.Cut(mustRun(t, "export", "--store", store), "\n")
		return records[:strings.LastIndex(records, `"sha256"`)]
	}
	if export(store) != export("pebble:"+target) {
		t.Error("what was restored is not what there was")
	}
}

// A backup or restore that is not possible is one line that names the remedy, and changes nothing.
func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	store, dir := aStore(t), t.TempDir()
	whole, cut, other := filepath.Join(dir, "whole"), filepath.Join(dir, "cut"), filepath.Join(dir, "other")
	mustRun(t, "backup", "--store", store, "--output", whole)
	stream, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(stream)
	changed[bytes.LastIndex(changed, []byte("[Version]"))] ^= 1
	if err := errors.Join(os.WriteFile(cut, stream[:len(stream)/2], 0o600), os.WriteFile(other, changed, 0o600)); err != nil {
		t.Fatal(err)
	}
	inUse, redis, empty := t.TempDir(), "redis://127.0.0.1:9/0", filepath.Join(dir, "nothing")
	startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+inUse)
	before := list(t, inUse)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"backup of no store":            {[]string{"backup", "--store", "pebble:" + empty, "--output", cut + "2"}, "there is no store"},
		"backup without a place":        {[]string{"backup", "--store", store}, "--output"},
		"backup to no place":            {[]string{"backup", "--store", store, "--output", filepath.Join(dir, "no", "where")}, "--output"},
		"backup of a Redis":             {[]string{"backup", "--store", redis, "--output", cut + "2"}, "hub export"},
		"restore into a Redis":          {[]string{"restore", "--store", redis, "--input", whole}, "restored into pebble:"},
		"restore of no file":            {[]string{"restore", "--store", "pebble:" + empty, "--input", empty}, "--input"},
		"restore of a directory":        {[]string{"restore", "--store", "pebble:" + empty, "--input", dir}, "no regular file"},
		"restore of half a file":        {[]string{"restore", "--store", "pebble:" + empty, "--input", cut}, "cut off"},
		"restore of a damaged file":     {[]string{"restore", "--store", "pebble:" + empty, "--input", other}, "damaged"},
		"restore of another file":       {[]string{"restore", "--store", "pebble:" + empty, "--input", os.Args[0]}, "not a backup"},
		"restore over a store":          {[]string{"restore", "--store", store, "--input", whole}, "not empty"},
		"restore into a store in use":   {[]string{"restore", "--store", "pebble:" + inUse, "--input", whole}, "not empty"},
		"restore without any input":     {[]string{"restore", "--store", "pebble:" + empty}, "--input"},
		"restore into somebody's files": {[]string{"restore", "--store", "pebble:" + dir, "--input", whole}, "not empty"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runCommand(t.Context(), test.args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("status %d, stdout %q, stderr %q; want a failure that says %q", code, stdout, stderr, test.want)
			}
		})
	}
	if got := list(t, dir); len(got) != 3 {
		t.Errorf("the refusals have left something: %q", got)
	}
	if got := list(t, inUse); len(got) != len(before) {
		t.Errorf("the refusals have changed a store that was in use: %q, before %q", got, before)
	}
}

// One backup runs at a time. One whose reader has stopped does not hold up the end of the hub, and the
// next start removes its leftovers.
func TestBackupUnderWayAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + dir}
	p := startHub(t, args...)
	fillStore(t, p)
	c, err := ask.AtSocket(t.Context(), engine.Socket(dir).Dial)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slow, err := c.Stream(t.Context(), http.MethodPost, "/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, err = c.Stream(t.Context(), http.MethodPost, "/backup", nil)
	if refused, is := errors.AsType[ask.Refused](err); !is || refused.Status != http.StatusConflict {
		t.Errorf("a second backup: %v; want status 409", err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
	if _, err := pebblestore.VerifyBackup(context.Background(), slow); err == nil {
		t.Error("the backup that was broken off is whole: the test does not test what it says")
	}
	for _, left := range list(t, dir) {
		if strings.HasSuffix(left, pebblestore.ScratchSuffix) {
			t.Errorf("the hub has left %s", left)
		}
	}
}

// fillStore publishes more than a socket holds back.
func fillStore(t *testing.T, p *process) {
	t.Helper()
	s := newSink(t)
	s.setHub(p.ready["url"], 0)
	for range 4 {
		body := strings.Repeat(fmt.Sprintln(&s), 1<<18)
		if status, answer, err := publish(p.ready["url"], s.topicURL("0"), "text/plain", body); err != nil || status != http.StatusOK {
			t.Fatalf("publishing: %d %s %v", status, answer, err)
		}
	}
}
