package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// imports runs notifier import.
func imports(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runWith(t.Context(), append([]string{"import"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

const twoResources = `{"loc":"http://a.example/1"}` + "\n" + `{"loc":"http://a.example/2","length":3}` + "\n"

// TestImport imports into a journal that is not open, and then by the notifier that has it open.
func TestImport(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "resources.ndjson")
	if err := os.WriteFile(file, []byte(twoResources), 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(what, stdin, told string, status int, args ...string) {
		t.Helper()
		code, stdout, stderr := imports(t, stdin, append([]string{"a", "--data", data}, args...)...)
		if text := stdout + stderr; code != status || !strings.Contains(text, told) || strings.Count(text, "\n") != 1 || (stdout == "") != (status != 0) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %d, one line with %q", what, code, stdout, stderr, status, told)
		}
	}
	want("a bad line", twoResources+"\n{}", "stdin: line 4: loc is missing; nothing was imported", 1)
	want("a loc twice", twoResources+twoResources, "stdin: line 3: loc stands twice: http://a.example/1; nothing was imported", 1)
	want("into a new set", "", "notifier imported 2 resources into a: they are what the set has", 0, "--input", file)
	want("an empty one", "", "stdin: the snapshot is empty, and the set has resources; ", 1)
	want("an empty one that is meant", "", "notifier imported 0 resources into a: ", 0, "--allow-empty")
	want("an empty one of an empty set", "\n", "notifier imported 0 resources into a: ", 0)
	want("once more", "", "notifier imported 2 resources into a: ", 0, "--input", file)
	server := httptest.NewServer(&moodyHub{calm: true})
	defer server.Close()
	p := startProcess(
		t, "--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", data, "--set", "a",
		"--hub", server.URL, "--log-level", "error",
	)
	defer p.kill()
	another := `{"loc":"http://a.example/2","length":4}` + "\n" + `{"loc":"http://a.example/3"}`
	want("to nobody", another, "no notifier answers at --intake 127.0.0.1:1", 1, "--intake", "127.0.0.1:1")
	want("to a port that is not known", another, "--intake must be its address with the port, not \"127.0.0.1:0\"", 1, "--intake", "127.0.0.1:0")
	want("to what is no notifier", another, "the notifier refuses it (404 Not Found)", 1, "--intake", notFound(t))
	want("a bad line, handed over", another+"\nx", "stdin: line 3: must be a resource", 1, "--intake", p.intake)
	want("twice, handed over", another+"\n"+another, "line 3: loc stands twice", 1, "--intake", p.intake)
	want("an empty one, handed over", "", "the snapshot is empty, and the set has resources", 1, "--intake", p.intake)
	want("handed over", another, "notifier imported 2 resources into a: 1 created, 1 updated, 1 deleted", 0, "--intake", "http://"+p.intake+"/")
	want("an empty one that is meant, handed over", "", "0 updated, 2 deleted", 0, "--intake", p.intake, "--allow-empty")
}

// notFound is a server that has nothing.
func notFound(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

func TestImportRefusals(t *testing.T) {
	t.Parallel()
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"the name of the set is missing":    {},
		`set: ".a" is not a name`:           {".a"},
		"--data must name a directory":      {"a", "--data", ""},
		"--input: open /none: no such file": {"a", "--input", "/none"},
		"--data " + foreign + ": ":          {"a", "--data", foreign},
		"unknown flag --resource-list":      {"a", "--resource-list", "a"},
	} {
		code, stdout, stderr := imports(t, "", args...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: status %d, stdout %q, stderr %q; want one line with %q", args, code, stdout, stderr, want)
		}
	}
}

// TestResourceListRefused: events do not show the resources of a set that had some before.
func TestResourceListRefused(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := httptest.NewServer(&moodyHub{calm: true})
	defer server.Close()
	event := `{"loc":"http://a.example/","change":"created"}`
	if code, _, stderr := runOnce(t, event, "--data", data, "--hub", server.URL, "--stdin"); code != 0 {
		t.Fatal(stderr)
	}
	code, _, stderr := runOnce(t, "", "--data", data, "--hub", server.URL, "--stdin", "--resource-list", "default")
	if want := "notifier: --resource-list: the set default has had events before, from which its resources are not known; " +
		"import a snapshot first: notifier import default < resources.ndjson\n"; code != 1 || stderr != want {
		t.Errorf("status %d, stderr %q, want %q", code, stderr, want)
	}
	if code, _, stderr := imports(t, twoResources, "default", "--data", data); code != 0 {
		t.Error(stderr)
	}
	if code, _, stderr := runOnce(t, "", "--data", data, "--hub", server.URL, "--stdin", "--resource-list", "default"); code != 0 {
		t.Errorf("after an import: status %d, %s", code, stderr)
	}
	for want, args := range map[string][]string{
		`--resource-list: "b" is no set here`:  {"--resource-list", "b"},
		"--resource-list-every must be":        {"--resource-list-every", "1s"},
		"--resource-list-every must be over 0": {"--resource-list-every", "0s"},
	} {
		if code, _, stderr := runOnce(t, "", append([]string{"--data", data}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %s", args, code, stderr)
		}
	}
}
