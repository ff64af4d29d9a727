package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The password is put where the URL has its place for it, whatever is in it.
func TestRedisURL(t *testing.T) {
	t.Setenv(passwordVariable, "")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("a/b@c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for store, want := range map[string]string{
		"redis://host:6379/0":                 "redis://:%61%2F%62%40%63@host:6379/0",
		"redis://user@host":                   "redis://user:%61%2F%62%40%63@host",
		"rediss://@host/1?ca=/a@b":            "rediss://:%61%2F%62%40%63@host/1?ca=/a@b",
		"redis+sentinel://u@a:1,b:2/name/0":   "redis+sentinel://u:%61%2F%62%40%63@a:1,b:2/name/0",
		"redis+cluster://a:1,b:2?prefix=bell": "redis+cluster://:%61%2F%62%40%63@a:1,b:2?prefix=bell",
		"unix:///run/redis.sock":              "unix://:%61%2F%62%40%63@/run/redis.sock",
	} {
		got, err := redisURL(storeFlags{Store: store, RedisPasswordFile: file})
		if err != nil || got != want {
			t.Errorf("%s with a password is %s, %v; want %s", store, got, err, want)
		}
		t.Setenv(passwordVariable, "a/b@c")
		if got, err := redisURL(storeFlags{Store: store}); err != nil || got != want {
			t.Errorf("%s with a password from the environment is %s, %v; want %s", store, got, err, want)
		}
		t.Setenv(passwordVariable, "")
		if got, err := redisURL(storeFlags{Store: store}); err != nil || got != store {
			t.Errorf("%s without a password is %s, %v", store, got, err)
		}
	}
}

// redisURL returns the URL that the engine gets.
func redisURL(f storeFlags) (string, error) {
	c, err := f.engine(nil)
	if err != nil {
		return "", err
	}
	return c.RedisURL()
}

// No refusal of --store shows what may be a password.
func TestStoreRefusals(t *testing.T) {
	const secret = "open-sesame"
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "password"), filepath.Join(dir, "empty")
	for name, text := range map[string]string{file: secret, empty: "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		flags       storeFlags
		environment string
		want        string
	}{
		"a scheme misspelt":         {storeFlags{Store: "reddis://u:" + secret + "@host"}, "", "--store reddis:"},
		"no slashes":                {storeFlags{Store: "redis:" + secret + "@host"}, "", "--store redis:"},
		"no scheme":                 {storeFlags{Store: secret + "@host:6379"}, "", "--store …: the engine must be"},
		"no scheme, and a user":     {storeFlags{Store: secret + ":@host"}, "", "--store …: the engine must be"},
		"no host":                   {storeFlags{Store: "redis://u:" + secret + "@"}, "", "host"},
		"a password not encoded":    {storeFlags{Store: "redis://u:/" + secret + "@host"}, "", "percent-encoded"},
		"an unknown parameter":      {storeFlags{Store: "redis://u:" + secret + "@host?a=b"}, "", `"a"`},
		"two passwords":             {storeFlags{Store: "redis://u:" + secret + "@host"}, secret, passwordVariable},
		"a file and a URL":          {storeFlags{Store: "redis://u:" + secret + "@host", RedisPasswordFile: file}, "", "--redis-password-file"},
		"a file and a variable":     {storeFlags{Store: "redis://host", RedisPasswordFile: file}, secret, passwordVariable},
		"no such file":              {storeFlags{Store: "redis://host", RedisPasswordFile: file + "s"}, "", "passwords"},
		"an empty file":             {storeFlags{Store: "redis://host", RedisPasswordFile: empty}, "", "empty"},
		"a user without a password": {storeFlags{Store: "redis://user@host"}, "", "password"},
		"too many replicas":         {storeFlags{Store: "redis://host", RedisReplicas: 101}, "", "--redis-replicas"},
		"fewer replicas than none":  {storeFlags{Store: "redis://host", RedisReplicas: -1}, "", "--redis-replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(passwordVariable, test.environment)
			err := test.flags.Validate()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v; want one that names %s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q shows a password", err)
			}
		})
	}
}

// Pebble ignores the settings of Redis: a configuration file and the environment may serve several
// commands.
func TestRedisFlagsWithPebble(t *testing.T) {
	t.Setenv(passwordVariable, "secret")
	f := storeFlags{Store: "pebble:" + t.TempDir(), RedisPasswordFile: "none", RedisReplicas: 2, AllowEviction: true}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
}
