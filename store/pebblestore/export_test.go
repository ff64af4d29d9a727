package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/destination/mirror"
	"carillon/notifier"
	"carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// EncodePosition and EncodeGap write records.
func EncodePosition(p delivery.Position) []byte { return encodePosition(p) }

func EncodeGap(g delivery.Gap) []byte { return encodeGap(g) }

// DecodeAll reads the record as each kind of record. A readable one must be the same when it is
// written and read again.
func DecodeAll(record []byte) error {
	var id subscription.ID
	if v, err := decodeSubscription(id, record); err == nil {
		if w, err := decodeSubscription(id, encodeSubscription(v)); err != nil || w != v {
			return fmt.Errorf("subscription %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodeRequest(id, record); err == nil {
		if w, err := decodeRequest(id, encodeRequest(v)); err != nil || w != v {
			return fmt.Errorf("request %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodePosition(record); err == nil {
		if w, err := decodePosition(encodePosition(v)); err != nil || w != v {
			return fmt.Errorf("position %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodeGap(id, 1, record); err == nil {
		if w, err := decodeGap(id, 1, encodeGap(v)); err != nil || w != v {
			return fmt.Errorf("gap %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodeTopic(record); err == nil {
		if w, err := decodeTopic(encodeTopic(v)); err != nil || w != v {
			return fmt.Errorf("topic %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodePing(record); err == nil {
		if w, err := decodePing(encodePing(v)); err != nil || w != v {
			return fmt.Errorf("ping %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodeSource("name", record); err == nil {
		if w, err := decodeSource("name", encodeSource(v)); err != nil || !w.Same(v) {
			return fmt.Errorf("Source %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := journalDecodeChannel("set", record); err == nil {
		if err := journalAgain(v); err != nil {
			return err
		}
	}
	if v, err := decodeSource("name", record); err == nil {
		if w, err := decodeSource("name", encodeSource(v)); err != nil || !w.Same(v) {
			return fmt.Errorf("Source %#v became %#v, error %w", v, w, err)
		}
	}
	if v, err := decodeCount(record); err == nil {
		if w, err := decodeCount(encodeCount(v)); err != nil || w != v {
			return fmt.Errorf("count %d became %d, error %w", v, w, err)
		}
	}
	if v, err := mirrorDecodeCopy([]byte("\x58loc"), record); err == nil {
		again := mirrorEncodeCopy(&v)
		if w, err := mirrorDecodeCopy([]byte("\x58loc"), again); err != nil || !bytes.Equal(mirrorEncodeCopy(&w), again) {
			return fmt.Errorf("copy %#v became %#v, error %w", v, w, err)
		}
	}
	return decodeHeadAgain(record)
}

func journalAgain(v *notifier.Channel) error {
	record := journalEncodeChannel(v)
	w, err := journalDecodeChannel("set", record)
	if err != nil || !bytes.Equal(journalEncodeChannel(w), record) {
		return fmt.Errorf("channel %#v became %#v, error %w", v, w, err)
	}
	return nil
}

func decodeHeadAgain(record []byte) error {
	const seq = 1 << 50
	v, _, err := decodeHead(seq, record)
	if err != nil {
		return nil
	}
	again := encodeHead(&v)
	w, _, err := decodeHead(seq, again)
	if err != nil || w.After != v.After || !bytes.Equal(encodeHead(&w), again) {
		return fmt.Errorf("notification %#v became %#v, error %w", v, w, err)
	}
	return nil
}

// SampleRecords are one record of each kind.
func SampleRecords() [][]byte {
	return [][]byte{
		mirrorEncodeCopy(
			&mirror.Copy{
				Path: "h/p", State: mirror.Failed,
				File: &mirror.File{Size: 5, ModTime: time.Unix(1, 2)}, Tries: 3,
				Next: time.Unix(4, 5), Reason: "why",
			},
		),
		encodeSubscription(subscription.Subscription{Topic: "topic", Callback: "callback", Secret: "secret", Start: 300}),
		encodeRequest(subscription.Request{Mode: "subscribe", Topic: "topic", Lease: 5}),
		encodeRequest(subscription.Request{Mode: "subscribe", Topic: "topic", Since: time.Unix(1, 2), Start: 300, VerifyToken: "token"}),
		encodeTopic(topicState{key: "topic", head: 7, until: "until", hasDigest: true}),
		encodeTopic(topicState{key: "topic"}),
		encodeSource(source.Source{Prefixes: []string{"prefix", ""}, Created: time.Unix(5, 6)}),
		encodePosition(delivery.Position{Settled: 7, Failures: 3, NextAttempt: time.Unix(1, 2), LastStatus: 503}),
		encodeGap(delivery.Gap{Last: 9, Reason: delivery.GapTrimmed, At: time.Unix(1, 2)}),
		encodePing(delivery.Ping{Topic: topic.Parse("topic"), Count: 300}), encodeCount(5),
		encodeSource(source.Source{Prefixes: []string{"https://a.example/x"}, Created: time.Unix(1, 2)}),
		journalEncodeChannel(&notifier.Channel{
			Next: time.Unix(2, 0), Sealed: &notifier.Notification{From: time.Unix(1, 0), Until: time.Unix(2, 0), Entries: 3, Size: 4},
		}),
		encodeHead(&delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse("topic")}, Seq: 2, After: 1}),
		encodeHead(&delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse("topic")}, Seq: 1 << 50, After: 1 << 49}),
	}
}

// SaveBlindly writes positions where their subscriptions are, in the order given,
// and does not look at the positions that are stored: the yardstick for Save.
func (db *DB) SaveBlindly(ctx context.Context, batches []delivery.Batch) error {
	shards := make([]subscription.Shard, len(batches))
	for i, batch := range batches {
		shards[i] = batch.Tenure.Shard
	}
	return db.engine.change(ctx, shrinks, db.lockShards(shards), func(b *pebble.Batch) error {
		return db.writeCursors(b, func(w *cursorWriter) error {
			for _, batch := range batches {
				for _, a := range batch.Advances {
					if !w.exists(a.Subscription) {
						continue
					}
					if err := b.Set(memberKey(kindPosition, a.Subscription), encodePosition(a.Position), nil); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// Remembered is of how many subscriptions of a shard the last position is remembered.
func (db *DB) Remembered(s subscription.Shard) int { return len(db.shards[s].settled) }

// SizeOf is what the notification counts for in its log.
func SizeOf(n *delivery.Notification) int64 { return sizeOf(encodeHead(n), uint64(len(n.Body))) }

// Cached is how many bytes of what was read stay in memory.
func (db *DB) Cached() int64 { return db.engine.cache.Metrics().Size }

// RememberedTopics is of how many topics the state is remembered.
func (db *DB) RememberedTopics() (n int) {
	for i := range db.topics {
		n += len(db.topics[i].states)
	}
	return n
}

// LookForExpired does to the index of leases what Expired does that sees nothing in
// it, and calls meanwhile before it is at the end.
func (db *DB) LookForExpired(s subscription.Shard, now time.Time, meanwhile func()) {
	_, indexed := db.shards[s].firstLease()
	meanwhile()
	db.shards[s].passedLeases(expiryEnd(now), indexed)
}
