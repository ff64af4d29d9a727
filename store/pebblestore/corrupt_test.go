package pebblestore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// corruptRecords is how many records of each kind there are, so that a bad block
// has neighbours; corruptOne is the one whose block is bad.
const (
	corruptRecords = 200
	corruptOne     = 100
)

func corruptTopic(n int) string { return fmt.Sprintf("https://source.example/%03d/", n) }

func corruptRequest(kind string, n int) subscription.Request {
	callback := fmt.Sprintf("https://%s.example/%03d", kind, n)
	return subscription.Request{
		ID: subscription.NewID(topicURL, callback), Token: uuid.New(), Mode: subscription.ModeSubscribe,
		Topic: topicURL, Callback: callback,
	}
}

func corruptSub(n int) subscription.Subscription {
	r := corruptRequest("active", n)
	return subscription.Subscription{
		ID: r.ID, Topic: r.Topic, Callback: r.Callback, Start: 1, Expires: time.Unix(int64(1e9+n), 0),
	}
}

// corruptSettled is where the n-th subscription stands: a number that shows in a file.
func corruptSettled(n int) delivery.Seq { return delivery.Seq(1<<60 + n) }

func corruptGap(n int) delivery.Gap {
	return delivery.Gap{
		Subscription: corruptSub(0).ID, First: delivery.Seq(n), Last: delivery.Seq(1<<61 + n), Reason: delivery.GapGivenUp,
	}
}

func seqBytes(seq delivery.Seq) string { return string(binary.AppendUvarint(nil, uint64(seq))) }

// TestBadBlock flips one bit of a table file, in the block of one kind of record. Other blocks are
// served, and no call fails for ever.
func TestBadBlock(t *testing.T) {
	whole := vfs.NewMem()
	fillMany(t, whole)
	for name, row := range map[string]struct {
		marker string // in a record of the kind, and not in an earlier kind
		check  func(t *testing.T, db *pebblestore.DB)
	}{
		"subscription": {corruptSub(corruptOne).Callback, badSubscription},
		"position":     {seqBytes(corruptSettled(corruptOne)), badPosition},
		"gap":          {seqBytes(corruptGap(50).Last), badGap},
		"request":      {corruptRequest("pending", corruptOne).Callback, badRequest},
		"topic":        {corruptTopic(corruptOne), badTopic},
		"notification": {"text/" + fmt.Sprint(corruptOne), badNotification},
		"body":         {fmt.Sprintf("<%d>", corruptOne), badBody},
		"ping":         {fmt.Sprintf("https://pinged.example/%03d", corruptOne), badPing},
		"source":       {corruptSource(corruptOne).Prefixes[0], badSource},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			if _, err := vfs.Clone(whole, disk, "var/store", "var/store"); err != nil {
				t.Fatal(err)
			}
			flip(t, disk, row.marker)
			var log bytes.Buffer
			db, err := pebblestore.Open(pebblestore.Config{
				Dir: "var/store", FS: disk, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer closeDB(t, db)
			row.check(t, db)
			if !strings.Contains(log.String(), "kind="+name) {
				t.Errorf("the log does not tell of it: %s", log.String())
			}
			lines := strings.Count(log.String(), "left out")
			row.check(t, db)
			if again := strings.Count(log.String(), "left out"); again > lines {
				t.Errorf("it is logged again: %s", log.String())
			}
		})
	}
}

// fillMany makes a store with many records of each kind, all in one table file.
func fillMany(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	db := openOn(t, disk)
	tenures := ownAll(t, db)
	ctx := t.Context()
	var batches []delivery.Batch
	for n := range corruptRecords {
		r, sub := corruptRequest("active", n), corruptSub(n)
		batches = append(batches, delivery.Batch{
			Tenure:   tenures[subscription.ShardOf(sub.ID)],
			Advances: []delivery.Advance{{Subscription: sub.ID, Position: delivery.Position{Settled: corruptSettled(n)}}},
		})
		_, pinged := db.Pings().Ping(ctx, []topic.Address{topic.Parse(fmt.Sprintf("https://pinged.example/%03d", n))})
		_, one := db.Log().Append(ctx, delivery.Publication{Topic: topic.Parse(corruptTopic(n))}, uuid.New(), time.Now())
		_, many := db.Log().Append(ctx, delivery.Publication{
			Topic: topic.Parse(topicURL), ContentType: fmt.Sprintf("text/%d", n+1),
			Body: fmt.Appendf(bytes.Repeat([]byte{'x'}, 1000), "<%d>", n+1),
		}, uuid.New(), time.Now())
		err := errors.Join(pinged, one, many,
			db.Subscriptions().Submit(ctx, r), db.Subscriptions().Activate(ctx, r, sub),
			db.Subscriptions().Submit(ctx, corruptRequest("pending", n)), db.Sources().Add(ctx, corruptSource(n)))
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		batches = append(batches, delivery.Batch{
			Tenure: tenures[subscription.ShardOf(corruptSub(0).ID)], Gaps: []delivery.Gap{corruptGap(n)},
		})
	}
	if err := db.Cursors().Save(ctx, batches); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	opts := &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}}
	// So that markers can be found, and soon: Pebble looks long at what is bad in
	// a great block.
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 512
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	raw, err := pebble.Open("var/store", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Compact(ctx, []byte{0}, []byte{0xff}, false), raw.Close()); err != nil {
		t.Fatal(err)
	}
}

// flip changes a bit of the first place where marker is in a table file.
func flip(t *testing.T, disk vfs.FS, marker string) {
	t.Helper()
	flipAt(t, disk, func(content []byte) int { return bytes.Index(content, []byte(marker)) })
}

// flipAt changes a bit at a place of the first table file that has one.
func flipAt(t *testing.T, disk vfs.FS, place func(content []byte) int) {
	t.Helper()
	names, err := disk.List("var/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := disk.PathJoin("var/store", name)
		f, err := disk.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		i := place(content)
		if i < 0 || i >= len(content) {
			continue
		}
		content[i] ^= 1
		out, err := disk.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = out.Write(content)
		if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no table file has the place")
}

// wantMost checks that of all records only a few are missing.
func wantMost(t *testing.T, got, all int) {
	t.Helper()
	if got < all/2 || got == all {
		t.Errorf("%d of %d are there; want most, but not all", got, all)
	}
}

// positions lists every member, by where it stands.
func positions(t *testing.T, db *pebblestore.DB) map[subscription.ID]delivery.Seq {
	t.Helper()
	settled := make(map[subscription.ID]delivery.Seq)
	for s := range subscription.Shard(subscription.Shards) {
		for m, err := range db.Cursors().Members(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			settled[m.ID] = m.Settled
		}
	}
	return settled
}

func badSubscription(t *testing.T, db *pebblestore.DB) {
	ctx, bad := t.Context(), corruptSub(corruptOne)
	listed := positions(t, db)
	wantMost(t, len(listed), corruptRecords)
	readable := 0
	for n := range corruptRecords {
		sub := corruptSub(n)
		got, err := db.Subscriptions().Get(ctx, sub.ID)
		if _, there := listed[sub.ID]; err == nil && (!there || got.Callback != sub.Callback) {
			t.Errorf("%d: got %+v, listed %v", n, got, there)
		}
		switch {
		case err == nil:
			readable++
		case !errors.Is(err, subscription.ErrNotFound):
			t.Errorf("%d: %v", n, err)
		}
	}
	if readable < len(listed) {
		t.Errorf("%d are listed and %d can be read", len(listed), readable)
	}
	if expired := expiredOfAll(t, db); expired != readable {
		t.Errorf("%d expired, want %d", expired, readable)
	}
	if removed, err := db.Subscriptions().Remove(ctx, bad); removed || err != nil {
		t.Errorf("removed %v, error %v", removed, err)
	}
	tenures := ownAll(t, db)
	var batches []delivery.Batch
	for n := range corruptRecords {
		id := corruptSub(n).ID
		batches = append(batches, delivery.Batch{
			Tenure:   tenures[subscription.ShardOf(id)],
			Advances: []delivery.Advance{{Subscription: id, Position: delivery.Position{Settled: corruptSettled(n) + 1}}},
		})
	}
	if err := db.Cursors().Save(ctx, batches); err != nil {
		t.Errorf("saving: %v", err)
	}
}

// TestBadBlockIsRenewed: the next subscribe request replaces an unreadable record.
func TestBadBlockIsRenewed(t *testing.T) {
	disk := vfs.NewMem()
	fillMany(t, disk)
	bad := corruptSub(corruptOne)
	flip(t, disk, bad.Callback)
	db := openOn(t, disk)
	r := corruptRequest("active", corruptOne)
	bad.Expires = time.Now().Add(time.Hour)
	if err := errors.Join(db.Subscriptions().Submit(t.Context(), r), db.Subscriptions().Activate(t.Context(), r, bad)); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Subscriptions().Get(t.Context(), bad.ID); err != nil || got.Callback != bad.Callback {
		t.Errorf("got %+v, error %v", got, err)
	}
	r.Token = uuid.New()
	if err := errors.Join(db.Subscriptions().Submit(t.Context(), r), db.Subscriptions().Unsubscribe(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Subscriptions().Get(t.Context(), bad.ID); !errors.Is(err, subscription.ErrNotFound) {
		t.Errorf("unsubscribed: error %v", err)
	}
}

func badPosition(t *testing.T, db *pebblestore.DB) {
	right, atStart := 0, 0
	settled := positions(t, db)
	for n := range corruptRecords {
		switch settled[corruptSub(n).ID] {
		case corruptSettled(n):
			right++
		case 1:
			atStart++
		}
	}
	wantMost(t, right, corruptRecords)
	if right+atStart != corruptRecords {
		t.Errorf("%d are where they were and %d at their start", right, atStart)
	}
}

func badGap(t *testing.T, db *pebblestore.DB) {
	gaps, err := db.Cursors().Gaps(t.Context(), corruptSub(0).ID, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(gaps) == 0 || len(gaps) == 100 {
		t.Errorf("%d gaps are listed; want some", len(gaps))
	}
	gapped := 0
	for id, err := range db.Cursors().Gapped(t.Context(), subscription.ShardOf(corruptSub(0).ID)) {
		if gapped++; err != nil || id != corruptSub(0).ID {
			t.Errorf("got %s, error %v", id, err)
		}
	}
	if gapped != 1 {
		t.Errorf("%d have gaps, want one", gapped)
	}
}

func badRequest(t *testing.T, db *pebblestore.DB) {
	wantMost(t, requestsOfAll(t, db), corruptRecords)
}

// requestsOfAll counts the requests of all shards.
func requestsOfAll(t *testing.T, db *pebblestore.DB) (count int) {
	t.Helper()
	for shard := range subscription.Shard(subscription.Shards) {
		for r, err := range db.Subscriptions().Requests(t.Context(), shard) {
			if err != nil || subscription.ShardOf(r.ID) != shard {
				t.Errorf("shard %d: %+v, error %v", shard, r, err)
			}
			count++
		}
	}
	return count
}

// expiredOfAll counts the subscriptions of all shards whose lease is over.
func expiredOfAll(t *testing.T, db *pebblestore.DB) (count int) {
	t.Helper()
	for shard := range subscription.Shard(subscription.Shards) {
		subs, err := db.Subscriptions().Expired(t.Context(), shard, time.Now(), 1000)
		if err != nil {
			t.Error(err)
		}
		for _, sub := range subs {
			if subscription.ShardOf(sub.ID) != shard {
				t.Errorf("shard %d: %+v", shard, sub)
			}
		}
		count += len(subs)
	}
	return count
}

func badTopic(t *testing.T, db *pebblestore.DB) {
	listed := 0
	for state, err := range db.Log().Topics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if state.First != 1 {
			t.Errorf("got %+v", state)
		}
		listed++
	}
	wantMost(t, listed, corruptRecords+1)
	_, err := db.Log().Heads(t.Context(), []string{topicURL, corruptTopic(corruptOne)})
	wantDamaged(t, err)
	_, err = db.Log().State(t.Context(), corruptTopic(corruptOne))
	wantDamaged(t, err)
	if head, err := headOf(t.Context(), db, topicURL); head != corruptRecords || err != nil {
		t.Errorf("head %d, error %v; want %d", head, err, corruptRecords)
	}
}

// wantListed checks that what can be read is listed, and no more.
func wantListed(t *testing.T, db *pebblestore.DB, read []delivery.Seq) {
	t.Helper()
	want := slices.Clone(read)
	slices.Reverse(want)
	for _, limit := range []int{2 * corruptRecords, 7} {
		list, err := db.Log().Summaries(t.Context(), topicURL, 0, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []delivery.Seq
		for _, s := range list {
			got = append(got, s.Seq)
		}
		if !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Errorf("the latest %d are %d; want those of %d", limit, got, want)
		}
	}
}

// readAll reads the log as a subscriber does.
func readAll(t *testing.T, db *pebblestore.DB) (seqs []delivery.Seq) {
	t.Helper()
	for from := delivery.Seq(1); ; {
		n, err := db.Log().Read(t.Context(), topicURL, from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			return seqs
		}
		if err != nil {
			t.Fatal(err)
		}
		if n.Seq < from || n.ContentType != fmt.Sprintf("text/%d", n.Seq) {
			t.Fatalf("from %d: got %d, %s", from, n.Seq, n.ContentType)
		}
		seqs = append(seqs, n.Seq)
		from = n.Seq + 1
	}
}

func badNotification(t *testing.T, db *pebblestore.DB) {
	read := readAll(t, db)
	wantMost(t, len(read), corruptRecords)
	wantListed(t, db, read)
	for state, err := range db.Log().Topics(t.Context()) {
		if err != nil || state.First != 1 {
			t.Fatalf("%+v, error %v", state, err)
		}
	}
}

func badBody(t *testing.T, db *pebblestore.DB) {
	if seqs := readAll(t, db); len(seqs) < corruptRecords-5 || len(seqs) == corruptRecords {
		t.Errorf("%d notifications can be read", len(seqs))
	}
}

// TestBadBlockIsTrimmed with what is around it.
func TestBadBlockIsTrimmed(t *testing.T) {
	for name, marker := range map[string]string{"head": "text/100", "body": "<100>"} {
		disk := vfs.NewMem()
		fillMany(t, disk)
		flip(t, disk, marker)
		db := openOn(t, disk)
		later := time.Now().Add(time.Hour)
		if _, err := db.Log().Trim(t.Context(), topicURL, corruptRecords+1, later); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if seqs := readAll(t, db); len(seqs) > 0 {
			t.Errorf("%s: %d are left", name, len(seqs))
		}
		for state, err := range db.Log().Topics(t.Context()) {
			if err != nil || state.Topic == topicURL && state.First != corruptRecords+1 {
				t.Errorf("%s: %+v, error %v", name, state, err)
			}
		}
	}
}

// TestBadBlockAndNewNotifications: later notifications are read, though they belong where the damage
// is.
func TestBadBlockAndNewNotifications(t *testing.T) {
	disk := vfs.NewMem()
	fillMany(t, disk)
	flip(t, disk, "text/200")
	db := openOn(t, disk)
	for n := range 3 {
		p := delivery.Publication{Topic: topic.Parse(topicURL), ContentType: fmt.Sprintf("text/%d", corruptRecords+n+1)}
		if _, err := db.Log().Append(t.Context(), p, uuid.New(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	seqs := readAll(t, db)
	wantListed(t, db, seqs)
	if slices.Contains(seqs, 200) || !slices.Contains(seqs, 201) || seqs[len(seqs)-1] != 203 {
		t.Errorf("got %d", seqs)
	}
}

// TestAnyBadByte flips a bit wherever it may be, also in what Pebble keeps for
// itself: the store opens or gives the reason why not, and what lists comes to its end.
func TestAnyBadByte(t *testing.T) {
	whole := vfs.NewMem()
	fillMany(t, whole)
	opened := 0
	for place := 0; place < 300_000; place += 37_501 {
		disk := vfs.NewMem()
		if _, err := vfs.Clone(whole, disk, "var/store", "var/store"); err != nil {
			t.Fatal(err)
		}
		flipAt(t, disk, func(content []byte) int { return len(content) - 1 - place })
		db, err := pebblestore.Open(pebblestore.Config{Dir: "var/store", FS: disk})
		if err != nil {
			t.Logf("%d from the end: %v", place, err)
			continue
		}
		opened++
		positions(t, db)
		wantListed(t, db, readAll(t, db))
		for _, err := range db.Log().Topics(t.Context()) {
			if err != nil {
				t.Errorf("%d from the end: %v", place, err)
			}
		}
		requestsOfAll(t, db)
		expiredOfAll(t, db)
		closeDB(t, db)
	}
	if opened == 0 {
		t.Error("no store could be opened")
	}
}

func badPing(t *testing.T, db *pebblestore.DB) {
	waiting := 0
	for _, err := range db.Pings().Waiting(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		waiting++
	}
	wantMost(t, waiting, corruptRecords)
	_, err := db.Pings().Fetched(t.Context(), delivery.Ping{Topic: topic.Parse(fmt.Sprintf("https://pinged.example/%03d", corruptOne))})
	if err != nil {
		t.Errorf("fetched: %v", err)
	}
}
