package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"carillon/subscription"
)

// minMajor is the oldest release of Redis whose scripts can do what those here do.
const minMajor = 7

// Ready connects, checks the server, or every primary of a Cluster, with the settings
// by which acknowledged data could vanish, and makes the store where there is
// none. It may be called again. An error that is ErrUnavailable means not yet;
// with any other nothing will come of waiting: a wrong password, a release that is
// too old, maxmemory-policy without Config.AllowEviction, a store of another format.
func (db *DB) Ready(ctx context.Context) error {
	e := db.engine
	var mu sync.Mutex
	var warnings []string // guarded by mu
	unseen := false       // guarded by mu: the settings of a server are not known
	err := e.primaries(ctx, func(ctx context.Context, server *redis.Client) error {
		found, err := e.look(ctx, server)
		var apart []string
		if err == nil {
			apart, err = clock(ctx, server)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !evicts(err) {
			unseen = true
			return err
		}
		for _, text := range append(found.warnings(), apart...) {
			if e.url.kind == cluster {
				text = server.Options().Addr + ": " + text
			}
			warnings = append(warnings, text)
		}
		return err
	})
	if err == nil {
		err = e.identity(ctx)
	}
	// Also those of a server that was fit once, and is so no more.
	if !unseen && (err == nil || evicts(err) && e.wasThere()) {
		slices.Sort(warnings) // primaries answer in any order
		e.settle(warnings)
	}
	if err != nil {
		return fmt.Errorf("the store at %s: %w", e.url, e.refusal(ctx, err))
	}
	return nil
}

// primaries calls look for every server that takes writes.
func (e *engine) primaries(ctx context.Context, look func(ctx context.Context, server *redis.Client) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch client := e.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, look)
	case *redis.Client:
		return look(ctx, client)
	default:
		return fmt.Errorf("there is no way to reach the servers of a %T", client)
	}
}

// refusal separates trouble that may pass, which is ErrUnavailable, from errors that a start should
// not wait for.
func (e *engine) refusal(ctx context.Context, err error) error {
	_, answered := errors.AsType[redis.Error](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if settled, ok := errors.AsType[refusal](err); ok {
		return settled
	}
	if said := e.url.greeting(ctx, err); said != "" {
		err = fmt.Errorf("%w: Redis says %q", err, said)
	}
	if slip := e.slip(ctx, err); slip != nil {
		return slip
	}
	switch {
	case strings.Contains(err.Error(), "DENIED Redis is running in protected mode"):
		return refusal("Redis takes connections from its own machine only (protected mode): set a password for its users, by " +
			"requirepass or ACL SETUSER, and give it to the hub, or set protected-mode no in redis.conf where its network is closed: " + err.Error())
	case redis.IsAuthError(err), strings.Contains(err.Error(), "ERR AUTH "):
		return refusal("Redis does not accept the user and the password: " + err.Error())
	case redis.IsPermissionError(err), strings.Contains(err.Error(), "NOPERM"), strings.Contains(err.Error(), "has no permissions"):
		return refusal("Redis does not permit this user what a hub needs: " + err.Error())
	case strings.Contains(err.Error(), "cluster support disabled"):
		return errNoCluster
	case errors.Is(err, redis.Nil) && e.url.kind == sentinel:
		return refuse("no Sentinel that answers knows a master of the name %q", e.url.master)
	case untrusted:
		return refusal(
			"the certificate of Redis cannot be verified (ca= names the file of another authority): " + err.Error(),
		)
	case answered && classify(err) == defect:
		return refusal("Redis refuses what a hub needs: " + err.Error())
	}
	return e.failed(ctx, err)
}

// facts are what a server says of itself.
type facts struct {
	policy      string // maxmemory-policy
	appendOnly  bool
	appendFsync string // "": it could not be read
	unsynced    bool   // no-appendfsync-on-rewrite
	evicts      bool   // policy is not noeviction
}

// look reads what a server says of itself, and refuses what cannot work. Of one that
// evicts, which it refuses too, everything was read.
func (e *engine) look(ctx context.Context, server *redis.Client) (facts, error) {
	text, err := server.Info(ctx).Result()
	if err != nil {
		return facts{}, err
	}
	info := parseInfo(text)
	if err := e.fit(info); err != nil {
		return facts{}, err
	}
	found := facts{policy: info["maxmemory_policy"], appendOnly: info["aof_enabled"] == "1"}
	config, err := e.readConfig(ctx, server)
	if _, answered := errors.AsType[redis.Error](err); answered {
		e.noteUnread(err)
	} else if err != nil {
		return facts{}, err
	} else if config != nil {
		found.appendFsync = config["appendfsync"]
		found.unsynced = config["no-appendfsync-on-rewrite"] == "yes"
		if policy := config["maxmemory-policy"]; policy != "" {
			found.policy = policy
		}
		if err := e.admits(config["proto-max-bulk-len"]); err != nil {
			return facts{}, err
		}
	}
	found.evicts = found.policy != "" && found.policy != "noeviction"
	if found.evicts && !e.cfg.AllowEviction {
		return found, EvictionError{found.policy}
	}
	return found, nil
}

// checked are the settings that only CONFIG GET shows.
var checked = []string{"appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy", "proto-max-bulk-len"}

// readConfig reads those settings; nil where it was refused before. That is not tried again, as
// Redis notes in its ACL LOG each time.
func (e *engine) readConfig(ctx context.Context, server *redis.Client) (map[string]string, error) {
	e.mu.Lock()
	refused := e.closed
	e.mu.Unlock()
	if refused {
		return nil, nil
	}
	all := make(map[string]string)
	for _, name := range checked {
		found, err := server.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// noteUnread records that the settings may not be read, and says once what is not looked at.
func (e *engine) noteUnread(err error) {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		e.log.Warn("some settings of Redis cannot be read (+config|get) and are not looked at: see to appendfsync always, "+
			"no-appendfsync-on-rewrite no, and a proto-max-bulk-len above the longest body", "store", e.url, "error", err)
	}
}

// parseInfo reads the answer to INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}

// fit reports whether a server is one that a store can be on.
func (e *engine) fit(info map[string]string) error {
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < minMajor {
		return refuse("it is Redis %q; %d.0 or later is needed", version, minMajor)
	}
	mode := info["redis_mode"]
	switch {
	case mode == "sentinel":
		return refuse("it is a Sentinel: the URL must begin with redis+sentinel:// and name the master")
	case mode == "cluster" && e.url.kind != cluster:
		return refuse("it is a node of a Cluster: the URL must begin with redis+cluster://")
	case mode != "cluster" && e.url.kind == cluster:
		return errNoCluster
	case info["loading"] == "1":
		return fmt.Errorf("%w: Redis is loading its data", subscription.ErrUnavailable)
	case info["role"] == "slave":
		return fmt.Errorf("%w: it is a replica, which takes no writes", subscription.ErrUnavailable)
	}
	return nil
}

// admits reports whether the greatest body gets into the server.
func (e *engine) admits(limit string) error {
	n, err := strconv.ParseInt(limit, 10, 64)
	if err == nil && n < e.cfg.MaxBody {
		return refuse("proto-max-bulk-len is %d, and bodies may have %d bytes: "+
			"set it by CONFIG SET proto-max-bulk-len %d and in redis.conf, or lower the limit of bodies", n, e.cfg.MaxBody, e.cfg.MaxBody)
	}
	return nil
}

// warnings say by which settings acknowledged data could vanish, with the fix.
func (f facts) warnings() (list []string) {
	if f.evicts {
		list = append(list, fmt.Sprintf("maxmemory-policy is %s: when its memory is full, Redis throws away subscriptions and "+
			"notifications that were acknowledged; set it to noeviction", f.policy))
	}
	if f.unsynced && f.appendOnly && f.appendFsync != "no" {
		list = append(list, "no-appendfsync-on-rewrite is yes: when the machine of Redis fails while the file is rewritten, "+
			"what was acknowledged meanwhile is lost; set it to no")
	}
	switch {
	case !f.appendOnly:
		list = append(list, "appendonly is no: whatever was acknowledged since the last snapshot, or ever, is lost when Redis "+
			"ends; set it by CONFIG SET appendonly yes and in redis.conf")
	case f.appendFsync == "everysec":
		list = append(list, "appendfsync is everysec: when the machine of Redis fails, about the last second of what was "+
			"acknowledged is lost; set it to always to lose nothing")
	case f.appendFsync == "no":
		list = append(list, "appendfsync is no: when the machine of Redis fails, half a minute and more of what was "+
			"acknowledged is lost; set it to always to lose nothing")
	}
	return list
}

// format is the number of the layout of keys and records. Format 1 was never released.
const format = "2"

// identityScript makes the store if it is missing, and returns its identity. It rings the bell, which
// proves at the start that this user may.
//
//	KEYS  1 store
//	ARGV  1 the format  2 the id of a new store  3 the time  4 the bell's channel
//
// It returns {id, format}. It does not wait for replicas, unlike later writes.
var identityScript = newScript("identify the store", "#!lua flags=allow-oom\n", `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('PUBLISH', ARGV[4], 'm')
  redis.call('HSET', KEYS[1], 'id', ARGV[2], 'format', ARGV[1], 'created', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'id', 'format')
`, false)

// identity checks that the store is still the same one, and of this format. A missing store is made
// anew, and with another store the process goes on. Both mean that acknowledged data is lost, which is
// logged.
func (e *engine) identity(ctx context.Context) error {
	value, err := e.run(ctx, identityScript, []string{e.keys.store()},
		format, uuid.NewString(), time.Now().UTC().Format(time.RFC3339), e.keys.bell())
	if err != nil {
		return err
	}
	answer := value.([]any)
	id, _ := answer[0].(string)
	if answer[1] != format {
		return refuse("what is under the prefix %q has format %v, and this program knows format %s only: "+
			"use the program that made it, or another prefix", e.keys.prefix, answer[1], format)
	}
	e.mu.Lock()
	before := e.id
	e.id = id
	e.mu.Unlock()
	if before != "" && before != id {
		e.log.Error("the store was emptied, or replaced by another: what was acknowledged before is lost",
			"store", e.url, "was", before, "is", id)
		e.noteEmptied("the store was found emptied, or replaced by another")
	}
	return nil
}

// wasThere reports that the store was found here before.
func (e *engine) wasThere() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id != ""
}

// noteEmptied counts, and warns, that what was acknowledged is gone.
func (e *engine) noteEmptied(how string) {
	now := time.Now()
	e.mu.Lock()
	e.lost = now
	e.mu.Unlock()
	e.metrics.emptied.Inc()
	e.warn(fmt.Sprintf("at %s %s: subscriptions and notifications that were acknowledged before are lost; Destinations must "+
		"subscribe again, or a backup or an export must be restored", now.UTC().Format(time.RFC3339), how))
}

// emptiedAt is when that was found last; zero for never.
func (e *engine) emptiedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}
