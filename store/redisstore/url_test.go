package redisstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/internal/redistest"
	"carillon/store/redisstore"
)

func TestParseURLTakes(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLS(t)
	for text, redacted := range map[string]string{
		"redis://h":                               "redis://h",
		"redis://h:6380/3":                        "redis://h:6380/3",
		"redis://[::1]:6380":                      "redis://[::1]:6380",
		"redis://[::1]":                           "redis://[::1]",
		"redis://:p%40ss@h/0":                     "redis://:xxxxx@h/0",
		"redis://hub:hunter2@h?prefix=a.b-c_1":    "redis://hub:xxxxx@h?prefix=a.b-c_1",
		"redis://h?replicas=2":                    "redis://h?replicas=2",
		"rediss://hub:hunter2@h:1?ca=" + files.CA: "rediss://hub:xxxxx@h:1?ca=" + escaped(files.CA),
		"unix:///run/redis.sock?db=2":             "unix:///run/redis.sock?db=2",
		"unix://hub:hunter2@/run/redis.sock":      "unix://hub:xxxxx@/run/redis.sock",
		"redis+sentinel://a,b:1/m":                "redis+sentinel://a,b:1/m",
		"redis+sentinel://u:hunter2@a,b:1/m/2?sentinel-user=s&sentinel-password=hunter2": "redis+sentinel://u:xxxxx@a,b:1/m/2?" +
			"sentinel-password=xxxxx&sentinel-user=s",
		"rediss+sentinel://a/m?cert=" + files.Cert + "&key=" + files.Key: "rediss+sentinel://a/m?cert=" +
			escaped(files.Cert) + "&key=" + escaped(files.Key),
		"redis+cluster://a,b,c":                   "redis+cluster://a,b,c",
		"redis+cluster://a/0":                     "redis+cluster://a/0",
		"rediss+cluster://a:7000?server-name=red": "rediss+cluster://a:7000?server-name=red",
	} {
		u, err := redisstore.ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if u.Redacted() != redacted || u.String() != redacted {
			t.Errorf("%s is shown as %s, want %s", text, u.Redacted(), redacted)
		}
		if !redisstore.IsURL(text) {
			t.Errorf("%s is not told to be a URL of a store", text)
		}
	}
}

func escaped(path string) string { return strings.ReplaceAll(path, "/", "%2F") }

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLS(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	for text, want := range map[string]string{
		"":                                     "begins with none of redis://",
		"pebble:hub-data":                      "begins with none of redis://",
		"hunter2":                              "begins with none of redis://",
		"redis://":                             "a host has no name",
		"redis://u:hunter2@":                   "a host has no name",
		"redis://a,b":                          "redis+sentinel:// or redis+cluster://",
		"redis://h:hunter2":                    "the port of a host is no number",
		"redis://h:0":                          "the port of a host is no number",
		"redis://h:65536":                      "the port of a host is no number",
		"redis://a:b:c":                        "HOST or HOST:PORT",
		"redis://h/one":                        "the database is no number",
		"redis://h/-1":                         "the database is no number",
		"redis://h/9999999999":                 "the database is no number",
		"redis://hub@h":                        "a user without a password",
		"redis://u:hun%zzter2@h":               "not well percent-encoded",
		"redis://u:hunt/er2@h":                 "percent-encoded",
		"redis://u:hunt?er2@h":                 "percent-encoded",
		"redis://h?prefix=a:b":                 "prefix must be",
		"redis://h?prefix={x}":                 "prefix must be",
		"redis://h?prefix=":                    "prefix must be",
		"redis://h?prefix=a&prefix=b":          `"prefix" is given twice`,
		"redis://h?prefx=a":                    `"prefx" is not known`,
		"redis://h?a=%zz":                      "not well-formed",
		"redis://h?replicas=101":               "replicas must be a number up to 100",
		"redis://h?replicas=-1":                "replicas must be a number",
		"redis+cluster://h?replicas=1":         "replicas cannot be waited for",
		"redis+cluster://h/1":                  "no database but 0",
		"redis+sentinel://h":                   "/MASTERNAME",
		"redis+sentinel://h/m/x":               "the database is no number",
		"redis+sentinel://h/m?sentinel-user=s": "a sentinel-user without",
		"redis://h?sentinel-password=x":        "not known here",
		"redis://h?ca=/x":                      "the URL must begin with rediss",
		"rediss://h?ca=/no/such/file":          "ca: open /no/such/file",
		"rediss://h?ca=" + empty:               "no certificate in",
		"rediss://h?cert=" + files.Cert:        "cert and key go together",
		"rediss://h?cert=" + files.Cert + "&key=" + empty: "cert and key:",
		"unix://h/run/redis.sock":                         "no host",
		"unix://":                                         "takes the path of a socket",
		"redis://h?db=1":                                  `"db" is not known`,
	} {
		_, err := redisstore.ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", text, err, want)
			continue
		}
		for _, part := range []string{"hunter2", "er2", "hun%zz"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error tells the password: %v", text, err)
			}
		}
	}
}

// FuzzParseURL: no URL makes it panic, and no error shows a password.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"redis://u:%s@h:1/2?prefix=x", "redis+sentinel://u:%s@a,b/m/1?sentinel-password=%s", "unix://:%s@/x?db=1", "redis://h:%s", "rediss://%s/@",
	} {
		f.Add(seed)
	}
	const password = "hunter2hunter2"
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.Contains(text, ":%s@") {
			_, _ = redisstore.ParseURL(text) // it must not panic
			return
		}
		u, err := redisstore.ParseURL(strings.Replace(text, ":%s@", ":"+password+"@", 1))
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%q: the error tells the password: %v", text, err)
		}
		if err == nil && strings.Contains(u.Redacted(), password) {
			t.Errorf("%q: the password is shown: %s", text, u.Redacted())
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good := redisstore.Config{URL: "redis://127.0.0.1:1"}
	for want, change := range map[string]func(c *redisstore.Config){
		"the store's URL":      func(c *redisstore.Config) { c.URL = "nothing" },
		"is not of letters":    func(c *redisstore.Config) { c.Process = "me and you" },
		"Takeover is 1ms":      func(c *redisstore.Config) { c.Takeover = 1e6 },
		"Poll is -1ns":         func(c *redisstore.Config) { c.Poll = -1 },
		"MaxRequests is -1":    func(c *redisstore.Config) { c.MaxRequests = -1 },
		"MaxPings is -1":       func(c *redisstore.Config) { c.MaxPings = -1 },
		"MaxBody is -1":        func(c *redisstore.Config) { c.MaxBody = -1 },
		"Replicas is -1":       func(c *redisstore.Config) { c.Replicas = -1 },
		"Replicas is 101":      func(c *redisstore.Config) { c.Replicas = 101 },
		"cannot be waited for": func(c *redisstore.Config) { c.URL, c.Replicas = "redis+cluster://h", 1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := redisstore.Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	closeDB(t, openOnly(t, good))
}
