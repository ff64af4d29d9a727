package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/machine"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
)

// Config is where everything is kept. Settings of Redis are ignored with another engine.
type Config struct {
	// Store is pebble:DIRECTORY, or the URL of a Redis.
	Store string
	// Password is that of Redis, where Store has none; "": none.
	Password string
	// Replicas is how many replicas confirm what Redis acknowledges, 0 to 100; 0 leaves it
	// to Store.
	Replicas int
	// AllowEviction starts although Redis may drop what was acknowledged.
	AllowEviction bool
	// Takeover is how long a process may be silent before others take over its shards; 0: the
	// engine's default.
	Takeover time.Duration
	// MaxBody is the largest notification, in bytes; 0: any.
	MaxBody int64
	// CacheBytes and TableBytes bound the memory of Pebble, in bytes; 0: its defaults.
	CacheBytes, TableBytes int64
	// Pebble changes what the embedded engine gets; nil but in tests.
	Pebble func(*pebblestore.Config)
	// Names returns what errors call a field; nil: its name.
	Names func(field string) string
	// Logger takes what the engine logs.
	Logger *slog.Logger
	// Registerer takes the engine's metrics.
	Registerer prometheus.Registerer
}

// Format shows Store without what may be a password.
func (c Config) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.Shown()) }

// maxReplicas is the largest Config.Replicas.
const maxReplicas = 100

// Validate returns what is wrong with the Config, as far as the engine need not be opened to see
// it.
func (c Config) Validate() error {
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		return fmt.Errorf("%s must be from 0 to %d, not %d", c.name("RedisReplicas"), maxReplicas, c.Replicas)
	}
	if !c.Redis() {
		_, err := c.Directory()
		return err
	}
	where, err := c.RedisURL()
	if err == nil {
		_, err = redisstore.ParseURL(where)
	}
	return c.Failed(err)
}

// Redis reports whether Store is a Redis.
func (c Config) Redis() bool { return redisstore.IsURL(c.Store) }

// Directory returns where Pebble keeps everything.
func (c Config) Directory() (string, error) {
	kind, where, _ := strings.Cut(c.Store, ":")
	switch {
	case kind != "pebble":
		return "", c.Failed(
			errors.New("the engine must be pebble, as in pebble:hub-data, or redis, as in redis://localhost:6379/0"),
		)
	case where == "":
		return "", c.Failed(errors.New("the directory is missing, as in pebble:hub-data"))
	}
	return where, nil
}

// Check returns why no store could be opened, as far as the directory shows it. It makes nothing.
func (c Config) Check() error {
	where, err := c.Directory()
	if c.Redis() || err != nil {
		return nil // Validate looks at these
	}
	if err := machine.CheckDirectory(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.Failed(err)
	}
	return c.Failed(machine.RefuseRoot(where))
}

// RefuseNothing returns an error where Pebble has no store yet: it keeps a wrong directory from
// being made, and read as a hub that keeps nothing.
func (c Config) RefuseNothing() error {
	if c.Redis() {
		return nil
	}
	where, err := c.Directory()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(where)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return c.Failed(errors.New("there is no store"))
	}
	return c.Failed(err)
}

// Exposed returns what other users of the machine can do with the store, each with what to do.
func (c Config) Exposed() []string {
	where, err := c.Directory()
	if c.Redis() || err != nil {
		return nil
	}
	return machine.ExposedDirectory(c.name("Store"), where)
}

// Kind returns the engine's name, pebble or redis.
func (c Config) Kind() string {
	if c.Redis() {
		return "redis"
	}
	return "pebble"
}

// Shown returns Store without what may be a password.
func (c Config) Shown() string {
	if u, err := redisstore.ParseURL(c.Store); err == nil {
		return u.Redacted()
	}
	kind, rest, _ := strings.Cut(c.Store, ":")
	switch {
	case !strings.ContainsAny(c.Store, "@/") || kind == "pebble":
		return c.Store
	case !strings.ContainsAny(kind, "@/") && strings.HasPrefix(rest, "//"), redisstore.IsURL(kind + "://"):
		return kind + ":…"
	default: // the part in front may be a password, too
		return "…"
	}
}

// Failed names the store in an error, without what may be a password.
func (c Config) Failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", c.name("Store"), c.Shown(), err)
}

func (c Config) name(field string) string {
	if c.Names == nil {
		return field
	}
	return c.Names(field)
}

// RedisURL returns Store with the password, where that stands elsewhere.
func (c Config) RedisURL() (string, error) {
	if c.Password == "" {
		return c.Store, nil
	}
	scheme, rest, _ := strings.Cut(c.Store, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	at := strings.LastIndex(authority, "@")
	user, hosts := authority[:max(at, 0)], authority[at+1:]
	if strings.Contains(user, ":") {
		return "", fmt.Errorf("it has a password, and so has %s: keep one", c.name("RedisPassword"))
	}
	return scheme + "://" + user + ":" + escape(c.Password) + "@" + hosts + path, nil
}

// escape encodes every byte that may mean something in a URL.
func escape(password string) string {
	var b strings.Builder
	for _, c := range []byte(password) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
