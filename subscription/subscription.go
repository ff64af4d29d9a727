package subscription

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"carillon/topic"
)

// ID names a subscription: the UUIDv5 of its topic and its callback, so that
// subscribing again overwrites (WebSub §5.1) and every process that shares a
// store arrives at the same name.
type ID = uuid.UUID

// idSpace is the namespace of every ID. It never changes: stored
// subscriptions are found by it.
var idSpace = uuid.MustParse("6f0b7d0e-8f39-4a53-9d7e-3a8d1f6f2c11")

// NewID returns the ID of the subscription of callback to topic. Both count by
// their Key, so that spellings which WebSub §5.1.1 calls the same give the
// same ID.
func NewID(topicURL, callback string) ID {
	return uuid.NewSHA1(idSpace, []byte(topic.Key(topicURL)+"\x00"+topic.Key(callback)))
}

// Shard is one of the fixed number of parts that the subscriptions of a store
// are split into, so that several processes can share the work. Its range is 0
// to Shards-1.
type Shard uint8

// Shards is how many shards there are. It is a property of stored data and
// never changes.
const Shards = 64

// ShardOf returns the shard that the subscription belongs to.
func ShardOf(id ID) Shard { return Shard(id[len(id)-1] % Shards) }

// TopicShard returns the shard whose owner does what there is to do once for a
// topic, among the processes that share a store.
func TopicShard(at topic.Address) Shard { return ShardOf(uuid.NewSHA1(idSpace, []byte(at.Key()))) }

// Secret is the hub.secret of a subscription: the key of its signatures. It
// does not appear in logs or formatted output, in whatever form, nor in JSON.
type Secret string

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String hides the secret from formatted output; convert with string(s) to use it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[secret]"
}

// Format hides the secret for every verb, including those that do not fit texts, for which fmt would
// print the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the secret from encoders; an export converts with string(s).
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Subscription is one active subscription: notifications of Topic go to
// Callback until Expires.
type Subscription struct {
	ID ID
	// Topic and Callback stand byte for byte as in the request (WebSub §5.3,
	// §8.3); Key gives the form to compare by.
	Topic    string
	Callback string
	// Secret signs the deliveries; empty: no signature.
	Secret Secret
	// Start is the sequence number in the topic's log after which deliveries
	// begin. A renewal keeps it.
	Start uint64
	// Lease is the time granted, and Expires when it ends: Lease after the
	// verification request was made (WebSub §5.3).
	Lease   time.Duration
	Expires time.Time
	// Created is when the subscription first became active; a renewal keeps it.
	Created time.Time
}

// Mode is what a request asks for: the value of hub.mode.
type Mode string

// The modes of a request (WebSub §5.1).
const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
)

// Request is a subscribe or unsubscribe request that was accepted and is not
// settled yet.
type Request struct {
	ID ID
	// Token distinguishes this request from a later one with the same ID, which replaces it.
	Token    uuid.UUID
	Mode     Mode
	Topic    string
	Callback string
	Secret   Secret
	// VerifyToken is sent back to the callback with each verification (PuSH 0.3 §6.1);
	// empty: none. Subscribers may treat it as a secret.
	VerifyToken Secret
	// Lease is what will be granted when the request is verified; 0 for unsubscribe.
	Lease    time.Duration
	Received time.Time

	// Since is when the first request was received whose callback was asked: this request, or one that it
	// replaced. Start is the head of the topic's log before that callback was asked first: the
	// subscription gets the notifications after it (decision 5). Both are zero until the callback is
	// asked; unsubscribe requests have only inherited values.
	Since time.Time
	Start uint64
}

// Replacing returns r with what it inherits from the pending request that it replaces. The
// subscriber may have confirmed that one, so r starts no later, and is a renewal if that
// one was.
func (r Request) Replacing(old Request) Request {
	switch {
	case old.Since.IsZero():
	case r.Since.IsZero():
		r.Since, r.Start = old.Since, old.Start
	default:
		if old.Since.Before(r.Since) {
			r.Since = old.Since
		}
		r.Start = min(r.Start, old.Start)
	}
	return r
}

// same reports whether the two ask for the same, so that one confirmation is enough.
func (r Request) same(o Request) bool {
	return r.Mode == o.Mode && r.Topic == o.Topic && r.Callback == o.Callback &&
		equalSecrets(r.Secret, o.Secret) && equalSecrets(r.VerifyToken, o.VerifyToken) && r.Lease == o.Lease
}

func equalSecrets(a, b Secret) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// StartingAt returns r with start as its Start, unless it has an earlier one.
func (r Request) StartingAt(start uint64) Request {
	return r.Replacing(Request{Since: r.Received, Start: start})
}
