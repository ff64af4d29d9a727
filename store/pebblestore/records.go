package pebblestore

import (
	"crypto/sha256"
	"math"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// recordVersion begins every record, but for notifications with a hole before them,
// for topics, for positions with a replay, for gaps that were replayed, and for requests
// with a start or a verify token.
const (
	recordVersion    = 1
	recordWithBefore = 2
	recordWithBytes  = 2
	recordWithReplay = 2
	recordWithStart  = 2
)

// versionOf is the version that the record has: recordVersion, or other.
func versionOf(record []byte, other byte) byte {
	if len(record) > 0 && record[0] == other {
		return other
	}
	return recordVersion
}

func encodeSubscription(s subscription.Subscription) []byte {
	e := newEncoder(recordVersion, len(s.Topic)+len(s.Callback)+len(s.Secret)+48)
	e.string(s.Topic)
	e.string(s.Callback)
	e.string(string(s.Secret))
	e.uint(s.Start)
	e.int(int64(s.Lease))
	e.time(s.Expires)
	e.time(s.Created)
	return e
}

func decodeSubscription(id subscription.ID, record []byte) (subscription.Subscription, error) {
	d := newDecoder(record, recordVersion)
	d.text = string(record) // one allocation for its three strings: a start reads all there are
	s := subscription.Subscription{
		ID:       id,
		Topic:    d.string(),
		Callback: d.string(),
		Secret:   subscription.Secret(d.string()),
		Start:    d.uint(),
		Lease:    time.Duration(d.int()),
		Expires:  d.time(),
		Created:  d.time(),
	}
	return s, d.done()
}

// encodeRequest writes a start and a verify token only where there is one.
func encodeRequest(r subscription.Request) []byte {
	version := byte(recordVersion)
	if !r.Since.IsZero() || r.Start != 0 || r.VerifyToken != "" {
		version = recordWithStart
	}
	e := newEncoder(version, len(r.Topic)+len(r.Callback)+len(r.Secret)+len(r.VerifyToken)+80)
	e.bytes(r.Token[:])
	e.string(string(r.Mode))
	e.string(r.Topic)
	e.string(r.Callback)
	e.string(string(r.Secret))
	e.int(int64(r.Lease))
	e.time(r.Received)
	if version == recordWithStart {
		e.time(r.Since)
		e.uint(r.Start)
		e.string(string(r.VerifyToken))
	}
	return e
}

func decodeRequest(id subscription.ID, record []byte) (subscription.Request, error) {
	version := versionOf(record, recordWithStart)
	d := newDecoder(record, version)
	r := subscription.Request{ID: id}
	d.array(r.Token[:])
	r.Mode = subscription.Mode(d.string())
	r.Topic = d.string()
	r.Callback = d.string()
	r.Secret = subscription.Secret(d.string())
	r.Lease = time.Duration(d.int())
	r.Received = d.time()
	if version == recordWithStart {
		r.Since = d.time()
		r.Start = d.uint()
		r.VerifyToken = subscription.Secret(d.string())
	}
	return r, d.done()
}

func encodePosition(p delivery.Position) []byte { return appendPosition(make([]byte, 0, 41), p) }

// appendPosition writes a replay only where there is one.
func appendPosition(b []byte, p delivery.Position) []byte {
	version := byte(recordVersion)
	if p.ReplayNext != 0 || p.ReplayLast != 0 {
		version = recordWithReplay
	}
	e := encoder(append(b, version))
	e.uint(uint64(p.Settled))
	e.uint(uint64(p.Failures))
	e.time(p.NextAttempt)
	e.byte(byte(p.LastFailure))
	e.uint(uint64(p.LastStatus))
	if version == recordWithReplay {
		e.uint(uint64(p.ReplayNext))
		e.uint(uint64(p.ReplayLast))
	}
	return e
}

func decodePosition(record []byte) (delivery.Position, error) {
	version := versionOf(record, recordWithReplay)
	d := newDecoder(record, version)
	p := delivery.Position{
		Settled:     delivery.Seq(d.uint()),
		Failures:    uint32(d.uintMax(math.MaxUint32)),
		NextAttempt: d.time(),
		LastFailure: delivery.Class(d.byte()),
		LastStatus:  uint16(d.uintMax(math.MaxUint16)),
	}
	if version == recordWithReplay {
		p.ReplayNext = delivery.Seq(d.uint())
		p.ReplayLast = delivery.Seq(d.uint())
	}
	return p, d.done()
}

// encodeGap writes when it was replayed only where it was.
func encodeGap(g delivery.Gap) []byte {
	version := byte(recordVersion)
	if !g.Replayed.IsZero() {
		version = recordWithReplay
	}
	e := newEncoder(version, 48)
	e.uint(uint64(g.Last))
	e.byte(byte(g.Reason))
	e.byte(byte(g.Failure))
	e.time(g.At)
	if version == recordWithReplay {
		e.time(g.Replayed)
	}
	return e
}

func decodeGap(id subscription.ID, first uint64, record []byte) (delivery.Gap, error) {
	version := versionOf(record, recordWithReplay)
	d := newDecoder(record, version)
	g := delivery.Gap{
		Subscription: id,
		First:        delivery.Seq(first),
		Last:         delivery.Seq(d.uint()),
		Reason:       delivery.GapReason(d.byte()),
		Failure:      delivery.Class(d.byte()),
		At:           d.time(),
	}
	if version == recordWithReplay {
		g.Replayed = d.time()
	}
	return g, d.done()
}

// encodeHead keeps a notification without its body, but with the body's length.
// What came before it is kept only where that has not the number before: logs of
// this engine have no holes but those that came by a restore.
func encodeHead(n *delivery.Notification) []byte {
	version := byte(recordVersion)
	if n.After != n.Seq-1 {
		version = recordWithBefore
	}
	e := newEncoder(version, len(n.Topic)+len(n.ContentType)+128)
	e.bytes(n.ID[:])
	e.time(n.Accepted)
	e.string(n.Topic)
	e.string(n.ContentType)
	e.uint(uint64(len(n.Links)))
	for _, l := range n.Links {
		e.string(l)
	}
	e.string(n.From)
	e.string(n.Until)
	e.uint(uint64(len(n.Body)))
	if version == recordWithBefore {
		e.uint(uint64(n.After))
	}
	return e
}

func decodeHead(seq uint64, record []byte) (n delivery.Notification, bodyLen uint64, err error) {
	version := versionOf(record, recordWithBefore)
	d := newDecoder(record, version)
	n.Seq, n.After = delivery.Seq(seq), delivery.Seq(max(seq, 1)-1)
	d.array(n.ID[:])
	n.Accepted = d.time()
	n.Topic = d.string()
	n.ContentType = d.string()
	n.Links = d.strings()
	n.From = d.string()
	n.Until = d.string()
	bodyLen = d.uint()
	if version == recordWithBefore {
		n.After = delivery.Seq(d.uintMax(uint64(n.After)))
	}
	return n, bodyLen, d.done()
}

// topicState is what is remembered of a topic's log beyond its records.
type topicState struct {
	key      string // subscription.Key of the topic
	head     uint64
	last     uuid.UUID // the notification appended last
	until    string    // its Until
	previous string    // the Until of the one before it
	// digest is of the body and the interval of the last one; it has one
	// only if it covers an interval.
	hasDigest bool
	digest    [sha256.Size]byte
	bytes     int64 // what the notifications that are kept take, by sizeOf
}

func newTopicState(key string, head uint64, last delivery.Last) topicState {
	return topicState{
		key: key, head: head, last: last.ID, until: last.Until,
		hasDigest: last.Digest != [sha256.Size]byte{}, digest: last.Digest,
	}
}

func encodeTopic(t topicState) []byte {
	e := newEncoder(recordWithBytes, len(t.key)+len(t.until)+len(t.previous)+90)
	e.string(t.key)
	e.uint(t.head)
	e.bytes(t.last[:])
	e.string(t.until)
	e.string(t.previous)
	if t.hasDigest {
		e.byte(1)
		e.bytes(t.digest[:])
	} else {
		e.byte(0)
	}
	e.uint(uint64(max(t.bytes, 0)))
	return e
}

func decodeTopic(record []byte) (topicState, error) {
	d := newDecoder(record, recordWithBytes)
	t := topicState{key: d.string(), head: d.uintMax(math.MaxUint64 - 1)}
	d.array(t.last[:])
	t.until = d.string()
	t.previous = d.string()
	switch d.byte() {
	case 0:
	case 1:
		t.hasDigest = true
		d.array(t.digest[:])
	default:
		d.fail("a digest is of no known kind")
	}
	t.bytes = int64(d.uintMax(math.MaxInt64))
	return t, d.done()
}

func encodePing(p delivery.Ping) []byte {
	e := newEncoder(recordVersion, len(p.Topic)+16)
	e.string(p.Topic)
	e.uint(p.Count)
	return e
}

func decodePing(record []byte) (delivery.Ping, error) {
	d := newDecoder(record, recordVersion)
	p := delivery.Ping{Topic: d.string(), Count: d.uint()}
	return p, d.done()
}
