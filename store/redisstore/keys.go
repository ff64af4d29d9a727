package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"

	"carillon/subscription"
)

// keys makes the names of keys. Those with the same hash tag, the part in braces,
// are on the same node of a Cluster, and may meet in one script. All begin with a
// prefix, so that a Redis can be shared with others.
type keys struct{ prefix string }

// Of the store as a whole.

func (k keys) store() string   { return k.prefix + ":{store}" }         // hash: id, format, created
func (k keys) members() string { return k.prefix + ":{store}:members" } // zset: process → end of its lease
func (k keys) topics() string  { return k.prefix + ":{store}:topics" }  // set: keys of topics that have a log

// Of those who may publish.

func (k keys) sources() string { return k.prefix + ":{sources}" } // hash: name → Source

// Of what processes ask each other. They are forgotten soon.

func (k keys) questions(process string) string {
	return k.prefix + ":{process-" + process + "}:questions"
} // list: questions to the process

func (k keys) answers(question uuid.UUID) string {
	return k.prefix + ":{question-" + question.String() + "}:answers"
} // list: answers to the question

// bell is the channel on which processes hear of each other's changes.
func (k keys) bell() string { return k.prefix + ":bell" }

// Of a shard.

func (k keys) shard(s subscription.Shard, name string) string {
	return k.prefix + ":{shard-" + string([]byte{'0' + byte(s)/10, '0' + byte(s)%10}) + "}:" + name
}

func (k keys) cursors(s subscription.Shard) string  { return k.shard(s, "cursors") }  // hash: id → position; and the lease
func (k keys) subs(s subscription.Shard) string     { return k.shard(s, "subs") }     // hash: id → subscription
func (k keys) leases(s subscription.Shard) string   { return k.shard(s, "leases") }   // zset by name: expires and id
func (k keys) requests(s subscription.Shard) string { return k.shard(s, "requests") } // hash: id → request
func (k keys) marks(s subscription.Shard) string    { return k.shard(s, "marks") }    // hash: topic → lowest cursor

func (k keys) gaps(id subscription.ID) string { // zset: first → gap
	return k.shard(subscription.ShardOf(id), "gaps:"+id.String())
}

// Of a topic, by its topic.Key.

func (k keys) topic(key, name string) string {
	sum := sha256.Sum256([]byte(key))
	return k.prefix + ":{topic-" + hex.EncodeToString(sum[:16]) + "}:" + name
}

func (k keys) log(topic string) string   { return k.topic(topic, "log") }   // stream: notifications
func (k keys) times(topic string) string { return k.topic(topic, "times") } // stream: when they were accepted
func (k keys) head(topic string) string  { return k.topic(topic, "head") }  // hash: state of the log

// Of the pings.

func (k keys) pings() string     { return k.prefix + ":{pings}:waiting" } // hash: topic → ping
func (k keys) pingCount() string { return k.prefix + ":{pings}:count" }   // hash: the last count, and under which server

// maxName and maxHostName bound the name of a process, and what of it is the machine's.
const (
	maxName     = 100
	maxHostName = 60
)

// newName makes a name that no process had, by which an operator finds its machine.
func newName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if isNamePart(r) {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%s:%d:%s", host[:min(len(host), maxHostName)], os.Getpid(), uuid.NewString()[:8])
}

func isNamePart(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".:_-", r)
}

// isName reports whether a process may have the name: it is a part of keys and messages.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && strings.IndexFunc(
		name, func(r rune) bool { return !isNamePart(r) },
	) < 0
}
