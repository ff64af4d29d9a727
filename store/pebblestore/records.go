package pebblestore

import (
	"crypto/sha256"
	"math"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
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
	e.words(s.Topic)
	e.words(s.Callback)
	e.words(string(s.Secret))
	e.number(s.Start)
	e.signed(int64(s.Lease))
	e.instant(s.Expires)
	e.instant(s.Created)
	return e
}

func decodeSubscription(id subscription.ID, record []byte) (subscription.Subscription, error) {
	d := newDecoder(record, recordVersion)
	d.text = string(record) // one allocation for its three strings: a start reads all there are
	s := subscription.Subscription{
		ID:       id,
		Topic:    d.words(),
		Callback: d.words(),
		Secret:   subscription.Secret(d.words()),
		Start:    d.number(),
		Lease:    time.Duration(d.signed()),
		Expires:  d.instant(),
		Created:  d.instant(),
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
	e.raw(r.Token[:])
	e.words(string(r.Mode))
	e.words(r.Topic)
	e.words(r.Callback)
	e.words(string(r.Secret))
	e.signed(int64(r.Lease))
	e.instant(r.Received)
	if version == recordWithStart {
		e.instant(r.Since)
		e.number(r.Start)
		e.words(string(r.VerifyToken))
	}
	return e
}

func decodeRequest(id subscription.ID, record []byte) (subscription.Request, error) {
	version := versionOf(record, recordWithStart)
	d := newDecoder(record, version)
	r := subscription.Request{ID: id}
	d.array(r.Token[:])
	r.Mode = subscription.Mode(d.words())
	r.Topic = d.words()
	r.Callback = d.words()
	r.Secret = subscription.Secret(d.words())
	r.Lease = time.Duration(d.signed())
	r.Received = d.instant()
	if version == recordWithStart {
		r.Since = d.instant()
		r.Start = d.number()
		r.VerifyToken = subscription.Secret(d.words())
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
	e.number(uint64(p.Settled))
	e.number(uint64(p.Failures))
	e.instant(p.NextAttempt)
	e.octet(byte(p.LastFailure))
	e.number(uint64(p.LastStatus))
	if version == recordWithReplay {
		e.number(uint64(p.ReplayNext))
		e.number(uint64(p.ReplayLast))
	}
	return e
}

func decodePosition(record []byte) (delivery.Position, error) {
	version := versionOf(record, recordWithReplay)
	d := newDecoder(record, version)
	p := delivery.Position{
		Settled:     delivery.Seq(d.number()),
		Failures:    uint32(d.uintMax(math.MaxUint32)),
		NextAttempt: d.instant(),
		LastFailure: delivery.Class(d.octet()),
		LastStatus:  uint16(d.uintMax(math.MaxUint16)),
	}
	if version == recordWithReplay {
		p.ReplayNext = delivery.Seq(d.number())
		p.ReplayLast = delivery.Seq(d.number())
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
	e.number(uint64(g.Last))
	e.octet(byte(g.Reason))
	e.octet(byte(g.Failure))
	e.instant(g.At)
	if version == recordWithReplay {
		e.instant(g.Replayed)
	}
	return e
}

func decodeGap(id subscription.ID, first uint64, record []byte) (delivery.Gap, error) {
	version := versionOf(record, recordWithReplay)
	d := newDecoder(record, version)
	g := delivery.Gap{
		Subscription: id,
		First:        delivery.Seq(first),
		Last:         delivery.Seq(d.number()),
		Reason:       delivery.GapReason(d.octet()),
		Failure:      delivery.Class(d.octet()),
		At:           d.instant(),
	}
	if version == recordWithReplay {
		g.Replayed = d.instant()
	}
	return g, d.done()
}

// encodeHead keeps a notification without its body, but with the body's length. It keeps After only
// where that is not the number before: logs of this engine have no holes but those that came by a
// restore.
func encodeHead(n *delivery.Notification) []byte {
	version := byte(recordVersion)
	if n.After != n.Seq-1 {
		version = recordWithBefore
	}
	spelling := n.Topic.String()
	e := newEncoder(version, len(spelling)+len(n.ContentType)+128)
	e.raw(n.ID[:])
	e.instant(n.Accepted)
	e.words(spelling)
	e.words(n.ContentType)
	e.number(uint64(len(n.Links)))
	for _, l := range n.Links {
		e.words(l)
	}
	e.words(n.From)
	e.words(n.Until)
	e.number(uint64(len(n.Body)))
	if version == recordWithBefore {
		e.number(uint64(n.After))
	}
	return e
}

func decodeHead(seq uint64, record []byte) (n delivery.Notification, bodyLen uint64, err error) {
	version := versionOf(record, recordWithBefore)
	d := newDecoder(record, version)
	n.Seq, n.After = delivery.Seq(seq), delivery.Seq(max(seq, 1)-1)
	d.array(n.ID[:])
	n.Accepted = d.instant()
	n.Topic = topic.Parse(d.words())
	n.ContentType = d.words()
	n.Links = d.list()
	n.From = d.words()
	n.Until = d.words()
	bodyLen = d.number()
	if version == recordWithBefore {
		n.After = delivery.Seq(d.uintMax(uint64(n.After)))
	}
	return n, bodyLen, d.done()
}

// perNotification is about what a notification takes beyond its body and its
// record: two keys, and what Pebble has for each.
const perNotification = 64

// sizeOf is what a notification counts for in its topic's log.
func sizeOf(head []byte, bodyLen uint64) int64 {
	return int64(len(head)) + int64(bodyLen) + perNotification
}

// topicState is what is remembered of a topic's log beyond its records.
type topicState struct {
	key      string
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
	e.words(t.key)
	e.number(t.head)
	e.raw(t.last[:])
	e.words(t.until)
	e.words(t.previous)
	if t.hasDigest {
		e.octet(1)
		e.raw(t.digest[:])
	} else {
		e.octet(0)
	}
	e.number(uint64(max(t.bytes, 0)))
	return e
}

func decodeTopic(record []byte) (topicState, error) {
	d := newDecoder(record, recordWithBytes)
	t := topicState{key: d.words(), head: d.uintMax(math.MaxUint64 - 1)}
	d.array(t.last[:])
	t.until = d.words()
	t.previous = d.words()
	switch d.octet() {
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
	spelling := p.Topic.String()
	e := newEncoder(recordVersion, len(spelling)+16)
	e.words(spelling)
	e.number(p.Count)
	return e
}

func decodePing(record []byte) (delivery.Ping, error) {
	d := newDecoder(record, recordVersion)
	p := delivery.Ping{Topic: topic.Parse(d.words()), Count: d.number()}
	return p, d.done()
}
