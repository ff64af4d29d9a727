package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"carillon/subscription"
)

// Keys. Each begins with a byte that says its kind; numbers are big-endian, so
// that keys sort as their numbers do.
//
//	00 "format"                    what made the directory, and in which version
//	00 "counted"                   of no use any more; older stores have it
//	00 "floor"                     what every sequence number that is given is above, if there
//	01 shard id                    subscription
//	02 shard id                    its position
//	03 shard id first              a gap of it
//	05 expires id                  index: subscriptions by the end of their lease
//	06 topic                       state of a topic's log: head, last notification
//	07 topic seq                   notification without its body
//	08 topic seq                   its body
//	09 key                         ping that waits
//	0a                             the count of the last ping
//	0b shard                       epoch of the shard
//	0c shard id                    request that is not settled
//	0d name                        Source (programs of before do not look at it)
//
// shard is 1 byte, id the 16 bytes of a subscription.ID, first and seq 8 bytes,
// expires 8 bytes of seconds and 4 of nanoseconds, topic the first 16 bytes of the
// SHA-256 of the topic's topic.Key, key that Key itself.
//
// 01 and 02 run side by side, so one merging scan reads a shard's members. A
// position is there only together with its subscription. Heads and bodies are
// apart, so that a scan over a log does not read its bodies.
// From 40 on the kinds belong to other stores that are made with this package.
const (
	kindFormat       = 0x00
	kindSubscription = 0x01
	kindPosition     = 0x02
	kindGap          = 0x03
	kindExpiry       = 0x05
	kindTopic        = 0x06
	kindHead         = 0x07
	kindBody         = 0x08
	kindPing         = 0x09
	kindPingCount    = 0x0a
	kindEpoch        = 0x0b
	kindRequest      = 0x0c
	kindSource       = 0x0d
)

// kindNames are for log lines.
var kindNames = map[byte]string{
	kindFormat: "format", kindSubscription: "subscription", kindPosition: "position",
	kindGap: "gap", kindRequest: "request", kindExpiry: "expiry", kindTopic: "topic",
	kindHead: "notification", kindBody: "body", kindPing: "ping",
	kindPingCount: "ping count", kindEpoch: "epoch", kindSource: "source",
	kindMirrorCopy: "copy", kindMirrorLedger: "resource of the ledger",
}

const (
	idLen    = len(subscription.ID{})
	topicLen = 16
	seqLen   = 8
	timeLen  = 12
)

// topicID names a topic in keys.
type topicID [topicLen]byte

func topicIDOf(key string) topicID {
	sum := sha256.Sum256([]byte(key))
	return topicID(sum[:topicLen])
}

func formatKey() []byte { return append([]byte{kindFormat}, "format"...) }

func floorKey() []byte { return append([]byte{kindFormat}, "floor"...) }

// memberKey is the key of the subscription (kindSubscription), its position or its
// request.
func memberKey(kind byte, id subscription.ID) []byte { return appendMemberKey(nil, kind, id) }

func appendMemberKey(b []byte, kind byte, id subscription.ID) []byte {
	return append(append(b, kind, byte(subscription.ShardOf(id))), id[:]...)
}

func gapPrefix(id subscription.ID) []byte { return memberKey(kindGap, id) }

func gapKey(id subscription.ID, first uint64) []byte {
	return binary.BigEndian.AppendUint64(gapPrefix(id), first)
}

func requestKey(id subscription.ID) []byte { return memberKey(kindRequest, id) }

func expiryKey(expires time.Time, id subscription.ID) []byte {
	return append(appendTime([]byte{kindExpiry}, expires), id[:]...)
}

// expiryEnd is behind every index key with Expires <= now.
func expiryEnd(now time.Time) []byte {
	return keyEnd(appendTime([]byte{kindExpiry}, now))
}

// appendTime adds a form of t that sorts as time does, for any t.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^1<<63)
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// timeOf reads what appendTime wrote.
func timeOf(b []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(b)^1<<63), int64(binary.BigEndian.Uint32(b[8:]))).UTC()
}

// topicKey is the key of the topic's state, and the prefix of its notifications
// (kindHead) and their bodies (kindBody).
func topicKey(kind byte, t topicID) []byte { return append([]byte{kind}, t[:]...) }

func logKey(kind byte, t topicID, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(topicKey(kind, t), seq)
}

func pingKey(key string) []byte { return append([]byte{kindPing}, key...) }

func pingCountKey() []byte { return []byte{kindPingCount} }

func epochKey(s subscription.Shard) []byte { return []byte{kindEpoch, byte(s)} }

// idOf is the id at the end of a key.
func idOf(key []byte) subscription.ID { return subscription.ID(key[len(key)-idLen:]) }

// seqOf is the number at the end of a key.
func seqOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-seqLen:]) }

// keyEnd is the first key behind all that begin with prefix; nil without one.
func keyEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
