package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func writeToken(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// An invalid token is a refusal to start that does not print it.
func TestTokenRefusals(t *testing.T) {
	for want, text := range map[string]string{
		"is empty":                     " \n",
		"holds no token: it is one li": "carillon_a\ncarillon_b\n",
		"holds no token: it is one l":  "carillon_t\u00f6ken",
		"holds no token: it is one":    strings.Repeat("carillon_", 100),
	} {
		code, stdout, stderr := runOnce(t, "", "--data", t.TempDir(), "--hub-token-file", writeToken(t, text))
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "carillon_") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%.20q: status %d, stdout %q, stderr %q", text, code, stdout, stderr)
		}
	}
	code, _, stderr := runOnce(t, "", "--data", t.TempDir(), "--hub-token-file", filepath.Join(t.TempDir(), "none"))
	if code == 0 || !strings.Contains(stderr, "--hub-token-file") {
		t.Errorf("no such file: status %d, %s", code, stderr)
	}
	t.Setenv(tokenVariable, "carillon_a")
	code, _, stderr = runOnce(t, "", "--data", t.TempDir(), "--hub-token-file", writeToken(t, "carillon_b"))
	if code == 0 || !strings.Contains(stderr, "keep one") || strings.Contains(stderr, "carillon_") {
		t.Errorf("two tokens: status %d, %s", code, stderr)
	}
}

// The token goes with each notification, from the file or from the environment; one that was
// put into the file meanwhile is taken up.
func TestTheTokenIsSent(t *testing.T) {
	events, err := os.ReadFile("../../testdata/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	file := writeToken(t, "carillon_old\n")
	for name, env := range map[string]string{"from the file": "", "from the environment": "carillon_new"} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var sent []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, r.Header.Get("Authorization"))
				if r.Header.Get("Authorization") != "Bearer carillon_new" && len(sent) < 4 { // else it would never end
					if err := os.WriteFile(file, []byte("carillon_new\n"), 0o600); err != nil {
						t.Error(err)
					}
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer server.Close()
			args := []string{"--data", t.TempDir(), "--hub", server.URL, "--stdin", "--log-level", "debug"}
			want := []string{"Bearer carillon_new"}
			if env == "" {
				args, want = append(args, "--hub-token-file", file), []string{"Bearer carillon_old", "Bearer carillon_new"}
			}
			t.Setenv(tokenVariable, env)
			code, stdout, stderr := runOnce(t, string(events), args...)
			if code != 0 || strings.Join(sent, "|") != strings.Join(want, "|") {
				t.Errorf("status %d, the hub saw %q; want %q\n%s", code, sent, want, stderr)
			}
			if strings.Contains(stdout+stderr, "carillon_") {
				t.Errorf("the token is told:\n%s%s", stdout, stderr)
			}
		})
	}
}

// A token that goes over plain HTTP to another machine is worth a warning.
func TestATokenWithoutTLS(t *testing.T) {
	t.Parallel()
	for hub, warns := range map[string]bool{
		"http://hub.example/": true, "http://192.0.2.1/": true, "http://localhost.example/": true,
		"https://hub.example/": false, "http://127.0.0.1:1/": false, "http://[::1]:1/": false, "http://localhost/": false, "http://hub.localhost./": false,
	} {
		code, _, stderr := runOnce(
			t, "", "--data", t.TempDir(), "--hub", hub, "--hub-token-file",
			writeToken(t, "carillon_a"), "--stdin", "--log-level", "warn",
		)
		if code != 0 || strings.Contains(stderr, "without TLS") != warns {
			t.Errorf("%s: status %d, %s; want a warning: %t", hub, code, stderr, warns)
		}
	}
}
