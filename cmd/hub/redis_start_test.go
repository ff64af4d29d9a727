package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/internal/redistest"
)

// eventually returns when done says so; it fails the test after half a minute.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// look asks the operator's listener at the address.
func look(admin, path string) (status int, body string) {
	status, body, err := answer(http.Get("http://" + admin + path))
	if err != nil {
		return 0, err.Error()
	}
	return status, body
}

// isReady returns whether the hub can accept and deliver.
func (p *process) isReady() bool {
	status, _ := look(p.ready["admin"], "/readyz")
	return status == http.StatusOK
}

// A hub that starts before its Redis lives and is not ready, and says once what it waits for.
// Its public port opens all the same: requests that need the store are answered 503. It
// becomes ready by itself.
func TestRedisDownThenUp(t *testing.T) {
	t.Parallel() // it waits, mostly
	redis := redistest.Start(t)
	redis.Stop(t)
	listen, admin := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := launchHub(t, nil, "--listen", listen, "--admin", admin, "--store", redis.URL())
	eventually(t, "the operator's listener", func() bool { status, _ := look(admin, "/healthz"); return status == http.StatusOK })
	eventually(t, "the log line", func() bool { return strings.Contains(p.log.String(), "waiting for the store") })

	status, body := look(admin, "/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "store: ") || !strings.Contains(body, "deliveries: ") {
		t.Errorf("/readyz while Redis is away: %d %q", status, body)
	}
	eventually(t, "the public port", func() bool {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	resp, err := http.PostForm("http://"+listen+"/websub/", url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {"http://127.0.0.1:1024/topic"}, "hub.callback": {"http://127.0.0.1:1024/callback"},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("subscribing while Redis is away: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}

	redis.Restart(t)
	p.awaitReady(t)
	eventually(t, "readiness", p.isReady)
	log := p.log.String()
	if n := strings.Count(log, "waiting for the store"); n != 1 {
		t.Errorf("%d log lines about waiting; want one\n%s", n, log)
	}
	if !strings.Contains(log, "the store is there") {
		t.Errorf("no log line says that the store is there\n%s", log)
	}
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
}

// SIGTERM ends a hub that waits for its Redis, in order.
func TestStopWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Stop(t)
	p := launchHub(t, nil, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", redis.URL())
	eventually(t, "the log line", func() bool { return strings.Contains(p.log.String(), "waiting for the store") })
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v; want status 0\n%s", err, p.log)
	}
}

// Trouble that waiting does not mend ends the hub with one line that has the remedy, and no password.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	const secret = "open-sesame"
	locked := redistest.Start(t, "requirepass "+secret)
	evicting := redistest.Start(t, "maxmemory-policy allkeys-lru")
	inURL := func(s *redistest.Server, userinfo string) string {
		return strings.Replace(s.URL(), "://", "://"+userinfo+"@", 1)
	}
	wrong := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(wrong, []byte(secret+"-wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"eviction":                {[]string{"--store", evicting.URL()}, []string{"maxmemory-policy", "allkeys-lru", "(--allow-eviction)"}},
		"wrong password":          {[]string{"--store", inURL(locked, ":"+secret+"-wrong")}, []string{"password"}},
		"wrong password in file":  {[]string{"--store", locked.URL(), "--redis-password-file", wrong}, []string{"password"}},
		"no password":             {[]string{"--store", locked.URL()}, []string{"password"}},
		"unknown user":            {[]string{"--store", inURL(locked, "nobody:"+secret)}, []string{"password"}},
		"other than the database": {[]string{"--store", strings.TrimSuffix(evicting.URL(), "/0") + "/99", "--allow-eviction"}, []string{"99"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var stdout, stderr bytes.Buffer
			code := run(
				ctx,
				append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "error"}, test.args...),
				&stdout, &stderr,
			)
			if code == 0 || stdout.Len() > 0 {
				t.Errorf("status %d, stdout %q; want a failure and nothing there", code, &stdout)
			}
			checkRefusal(t, stderr.String(), secret, test.want...)
		})
	}
}

// checkRefusal wants one line with all those words and without the secret.
func checkRefusal(t *testing.T, stderr, secret string, want ...string) {
	t.Helper()
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("stderr is not one line: %q", stderr)
	}
	for _, word := range append(want, "--store", "redis://") {
		if !strings.Contains(stderr, word) {
			t.Errorf("%q does not name %s", stderr, word)
		}
	}
	if strings.Contains(stderr, secret) {
		t.Errorf("%q shows a password", stderr)
	}
}

// With --allow-eviction the hub starts on such a Redis, and warns.
func TestRedisAllowEviction(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "maxmemory-policy allkeys-lru")
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", redis.URL(), "--allow-eviction")
	eventually(t, "readiness", p.isReady)
	if _, body := look(p.ready["admin"], "/readyz"); !strings.Contains(body, "warning: ") || !strings.Contains(body, "maxmemory-policy") {
		t.Errorf("/readyz does not warn: %q", body)
	}
}

// A Redis that keeps nothing on disk is warned of in the log, in /readyz, which
// is ready all the same, and in the metrics.
func TestRedisWithoutAppendOnlyFile(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "appendonly no")
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", redis.URL())
	eventually(t, "readiness", p.isReady)
	if n := strings.Count(p.log.String(), "appendonly is no"); n != 1 {
		t.Errorf("it is in %d log lines, want one\n%s", n, p.log)
	}
	status, body := look(p.ready["admin"], "/readyz")
	if status != http.StatusOK || !strings.HasPrefix(body, "ready\n") || !strings.Contains(body, "\nwarning: ") || !strings.Contains(body, "appendonly") {
		t.Errorf("/readyz: %d %q", status, body)
	}
	if _, metrics := look(p.ready["admin"], "/metrics"); !strings.Contains(metrics, "\ncarillon_redis_warnings 1\n") {
		t.Error("the metrics do not count one warning")
	}
}

// The password may come from a file or the environment.
func TestRedisPassword(t *testing.T) {
	const secret = `p@ss/w:rd?#% "ü`
	redis := redistest.Start(t, "user carillon on ~carillon:* &carillon:* +@all >"+`"p@ss/w:rd?#% \"ü"`)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := strings.Replace(redis.URL(), "://", "://carillon@", 1)
	args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store}
	for _, args := range [][]string{append(args, "--redis-password-file", file), args} {
		p := startHub(t, args...)
		eventually(t, "readiness", p.isReady)
		if err := p.stop(t); err != nil {
			t.Errorf("the hub ended with %v\n%s", err, p.log)
		}
		t.Setenv(passwordVariable, secret) // for the second
	}
}

func TestRedisByTLS(t *testing.T) {
	t.Parallel()
	redis := redistest.StartTLS(t, redistest.NewTLS(t), "tls-auth-clients no")
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", redis.URL())
	eventually(t, "readiness", p.isReady)
}
