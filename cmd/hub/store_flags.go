package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/engine"
	"carillon/internal/machine"
)

// storeFlags say where everything is kept. Those for Redis are not heeded with
// another engine: they may come from a file or an environment that several
// commands share.
type storeFlags struct {
	Store string `default:"pebble:hub-data" placeholder:"ENGINE:WHERE" help:"Where everything is kept: pebble:DIRECTORY, for one process. Several processes share a Redis: redis://USER@HOST:PORT/DB, rediss:// (TLS), redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB, redis+cluster://HOST:PORT,HOST:PORT."`

	RedisPasswordFile string `placeholder:"FILE" help:"With Redis: file with the password, so that it need not stand in --store, which other users of the machine can see. $HUB_REDIS_PASSWORD may have the password itself."`
	RedisReplicas     int    `default:"0" placeholder:"N" help:"With Redis: an answer waits until so many replicas have what it acknowledges; 503 where they do not. Not with Cluster. 0 leaves it to --store (replicas=N)." range:"0 to 100"`
	AllowEviction     bool   `help:"With Redis: start although its maxmemory-policy lets it throw away what was acknowledged."`
}

// passwordVariable may have the password of Redis. It is no flag: a command line
// can be seen by every user of the machine.
const passwordVariable = "HUB_REDIS_PASSWORD"

// engine returns what the flags say of a store, with the password, where that stands elsewhere.
func (f *storeFlags) engine(logger *slog.Logger) (engine.Config, error) {
	c := engine.Config{
		Store: f.Store, Replicas: f.RedisReplicas, AllowEviction: f.AllowEviction, Names: flagNames(passwordVariable),
		Logger: logger, Registerer: prometheus.NewRegistry(),
	}
	if !c.Redis() {
		return c, nil
	}
	password, from, err := f.password()
	c.Password, c.Names = password, flagNames(from)
	return c, c.Failed(err)
}

// Validate refuses what no engine could be opened with. It is called when the flags of a command
// that embeds them are parsed.
func (f *storeFlags) Validate() error {
	c, err := f.engine(nil)
	if err != nil {
		return err
	}
	return c.Validate()
}

// password is the one that does not stand in --store, if there is one, and where it is
// from.
func (f *storeFlags) password() (password, from string, err error) {
	password = os.Getenv(passwordVariable)
	switch {
	case f.RedisPasswordFile == "":
		return password, passwordVariable, nil
	case password != "":
		return "", "", fmt.Errorf("there are %s and --redis-password-file: keep one", passwordVariable)
	}
	text, err := os.ReadFile(f.RedisPasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("--redis-password-file: %w", err)
	}
	if password = strings.TrimRight(string(text), "\r\n"); password == "" {
		return "", "", fmt.Errorf("--redis-password-file: %s is empty", f.RedisPasswordFile)
	}
	return password, "--redis-password-file", nil
}

// exposed returns what of the store others can read that the hub does not look at.
func (f *storeFlags) exposed() []string {
	if !f.engineConfig().Redis() {
		return nil
	}
	return machine.ExposedSecret("--redis-password-file", f.RedisPasswordFile)
}

// engineConfig returns what --store alone says.
func (f *storeFlags) engineConfig() engine.Config {
	return engine.Config{Store: f.Store, Names: flagNames("")}
}

// openStore opens the store for a command that ends, which does not wait for a store that is away.
func openStore(ctx context.Context, f storeFlags, logger *slog.Logger) (*engine.Engine, error) {
	c, err := f.engine(logger)
	if err != nil {
		return nil, err
	}
	return engine.OpenNow(ctx, c)
}

// flagNames returns what users of the command call the fields of a Config. passwordFrom is where
// the password of Redis is from.
func flagNames(passwordFrom string) func(field string) string {
	return func(field string) string {
		switch field {
		case "RedisPassword":
			return passwordFrom
		case "DNSTTL":
			return "--dns-ttl"
		}
		return "--" + strings.ToLower(wordEnds.ReplaceAllString(field, "$1-$2"))
	}
}

// wordEnds finds where a word of a field's name ends and the next begins.
var wordEnds = regexp.MustCompile(`([a-z])([A-Z])`)

// Flags may have passwords in them, of Redis and of a proxy: they are not shown by
// accident, in whatever form.

// Format shows the store without its password.
func (f storeFlags) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "--store "+f.engineConfig().Shown())
}

// Format shows the store alone.
func (f serveCommand) Format(s fmt.State, verb rune) { f.storeFlags.Format(s, verb) }

// MarshalText is what encoders make of the flags of a command.
func (f storeFlags) MarshalText() ([]byte, error) {
	return []byte("--store " + f.engineConfig().Shown()), nil
}
