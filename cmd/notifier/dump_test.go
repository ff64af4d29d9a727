package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

func TestDumpRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	watch := []string{"--watch", "maps=" + dir + ",http://source.example/maps/files/"}
	for want, args := range map[string][]string{
		`--dump: "books" is no set here`:                         {"--dump", "books"},
		`--dump: "default" is there twice`:                       {"--dump", "default,default"},
		"--dump-every must be 1m0s to 744h0m0s":                  append([]string{"--dump", "maps", "--dump-every", "1s"}, watch...),
		"--dump-every must be over 0":                            {"--dump-every", "0s"},
		"--dump-keep must be over 0":                             {"--dump-keep", "0s"},
		"--dump-package-bytes must be 1048576 or more":           {"--dump-package-bytes", "1KB"},
		"--dump-bytes must be at least":                          {"--dump-bytes", "1MB"},
		"--dump: the set default has no Resource List":           {"--dump", "default"},
		"name it in --resource-list before its first event":      {"--dump", "default"},
		"no notifier answers at --intake 127.0.0.1:1":            {"dump", "maps", "--intake", "127.0.0.1:1"},
		"--intake must be its address with the port":             {"dump", "maps", "--intake", "127.0.0.1"},
		`set: "ma ps" is not a name`:                             {"dump", "ma ps"},
		`is neither HOST:PORT nor the URL of a listener`:         {"dump", "maps", "--intake", "ftp://a/"},
		"the name of the set is missing, as in notifier dump NA": {"dump", ""},
	} {
		var out, errs bytes.Buffer
		if args[0] != "dump" {
			args = append([]string{"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")}, args...)
		}
		code := run(t.Context(), args, &out, &errs)
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if code == 0 || !strings.Contains(lines[len(lines)-1], want) {
			t.Errorf("%v: status %d, stderr %q; want %q", args, code, &errs, want)
		}
	}
}

// dumpNow runs notifier dump, and returns its status.
func dumpNow(t *testing.T, p *process) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"dump", "maps", "--intake", p.intake}, &out, &errs)
	return code, out.String() + errs.String()
}

// TestKilledDump kills the program at random moments while it makes dumps of a changing directory.
// Served dumps are whole and true at each moment, and the last one matches the directory.
func TestKilledDump(t *testing.T) {
	t.Parallel()
	const kills, files = 5, 2000
	rng := rand.New(rand.NewPCG(1, 2))
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	write := func(i int) {
		name := filepath.Join(dir, fmt.Sprintf("%03d", i%50), fmt.Sprintf("file %d é.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, rng.IntN(4000))
		for k := range text {
			text[k] = byte(rng.Uint32())
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		write(i)
	}
	args := []string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--hub", "http://127.0.0.1:1/", "--data", data, "--log-level", "error",
		"--url", "http://source.example/", "--watch", "maps=" + dir + ",http://source.example/maps/files/", "--watch-settle", "10ms",
		"--dump", "maps", "--dump-package-bytes", "1MiB",
	}
	for range kills {
		p := startProcess(t, args...)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = dumpNow(t, p)
		}()
		write(rng.IntN(files))
		<-time.After(time.Duration(rng.IntN(700)) * time.Millisecond)
		p.kill()
		<-ended
	}
	p := startProcess(t, args...)
	defer p.kill()
	want := map[string]string{}
	for i := range files {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%03d", i%50), fmt.Sprintf("file %d é.txt", i)))
		if err != nil {
			t.Fatal(err)
		}
		want[fmt.Sprintf("http://source.example/maps/files/%03d/file%%20%d%%20%%C3%%A9.txt", i%50, i)] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	var got map[string]string
	// The scan may not have ended when the first dump is made, and that may be one of before.
	for attempt := 0; len(got) < files && attempt < 20; attempt++ {
		code, text := dumpNow(t, p)
		if code == 0 {
			if !strings.Contains(text, "notifier dumped maps: ") {
				t.Errorf("notifier dump says %q", text)
			}
			got = readDump(t, p)
			continue
		}
		if !strings.Contains(text, "no dump was made") {
			t.Fatalf("notifier dump: %s", text)
		}
		<-time.After(200 * time.Millisecond)
	}
	for loc, sum := range want {
		if got[loc] != sum {
			t.Errorf("%s: %s, want %s", loc, got[loc], sum)
		}
	}
	left, err := filepath.Glob(filepath.Join(data, "dumps", "maps", "resource", "*.making"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// readDump reads the Resource Dump: hashes by loc.
func readDump(t *testing.T, p *process) map[string]string {
	t.Helper()
	all := map[string]string{}
	doc := fetched(t, "http://"+p.listen+"/maps/resourcedump.xml")
	for _, one := range entriesOf(t, doc) {
		file := fetched(t, strings.Replace(one.Loc, "http://source.example/", "http://"+p.listen+"/", 1))
		z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := z.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entriesOf(t, text) {
			f, err := z.Open(strings.TrimPrefix(e.Path, "/"))
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			all[e.Loc] = fmt.Sprintf("%x", sha256.Sum256(content))
			if e.Hash != "sha-256:"+all[e.Loc] {
				t.Errorf("%s: the manifest says %s, the content is %s", e.Loc, e.Hash, all[e.Loc])
			}
		}
	}
	return all
}

func fetched(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "source.example"
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return body
}

func entriesOf(t *testing.T, doc []byte) (all []payload.Entry) {
	t.Helper()
	r := payload.NewReader(bytes.NewReader(doc), payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}
