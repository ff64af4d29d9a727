package transfer_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
	"carillon/transfer"
)

func mergeInto(t *testing.T, to transfer.Engine, stream []byte) error {
	t.Helper()
	_, err := transfer.Import(t.Context(), bytes.NewReader(stream), to, transfer.ImportConfig{Merge: true})
	return err
}

// The target's own records stay beside those of the stream.
func TestMergeKeepsWhatIsThere(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 10)
	own := member("https://other.example/", "https://own.example/", 0, 1)
	_, err := to.Log.Append(t.Context(), content(own.Topic, 1), uuid.New(), noon)
	must(t, err)
	must(t, to.Target.PutMembers(t.Context(), []delivery.Member{own}))
	must(t, mergeInto(t, to, export(t, from)))
	if got := only(t, to.Cursors, own.ID); got.Settled != 1 {
		t.Errorf("the target's own subscription is %+v", got)
	}
	if got := read(t, to.Log, own.Topic, 1); len(got) != 1 {
		t.Errorf("the target's own log has %d notifications", len(got))
	}
	if got := read(t, to.Log, bells, 1); len(got) != 8 {
		t.Errorf("the log of the stream has %d notifications", len(got))
	}
}

// A record takes the place of the one with the same name, but no position moves
// back.
func TestMergeMovesNoPositionBack(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 10)
	load(t, to, export(t, from))
	ahead := member(bells, "https://callback.example/0?x=1&y=<2>", 3, 901)
	ahead.Failures, ahead.LastFailure, ahead.Secret = 4, delivery.ClassDNS, "later"
	behind := member(bells, "https://callback.example/6?x=1&y=<2>", 3, 4)
	behind.Secret = "later"
	must(t, to.Target.PutMembers(t.Context(), []delivery.Member{ahead, behind}))
	must(t, mergeInto(t, to, export(t, from)))

	got := only(t, to.Cursors, ahead.ID)
	if got.Settled != 901 || got.Failures != 4 || got.Secret != "s\x00\xffecret" {
		t.Errorf("the subscription that was ahead stands at %d after %d failures, secret %q; want its own position and the stream's secret",
			got.Settled, got.Failures, string(got.Secret))
	}
	got = only(t, to.Cursors, behind.ID)
	if got.Settled != 5 || got.Failures != 7 || got.Secret != "s\x00\xffecret" {
		t.Errorf("the subscription that was behind stands at %d after %d failures; want the stream's position", got.Settled, got.Failures)
	}
}

// A log that has gone on in the target is not brought back, and one that has gone
// on in the source is completed.
func TestMergeOfOneLogAtTwoMoments(t *testing.T) {
	from, to := memory(t), memory(t)
	fill(t, from, 3)
	early := export(t, from)
	load(t, to, early)
	var last delivery.Receipt
	for i := range 5 {
		receipt, err := from.Log.Append(t.Context(), content(towers, i+10), uuid.New(), noon)
		must(t, err)
		last = receipt
	}
	late := export(t, from)
	must(t, mergeInto(t, to, late))
	equalStreams(t, export(t, to), late)

	must(t, mergeInto(t, to, early))
	heads, err := to.Log.Heads(t.Context(), []string{towers})
	must(t, err)
	if heads[0] != last.Seq || len(read(t, to.Log, towers, 1)) != 6 {
		t.Errorf("the log that has gone on ends at %d; want %d", heads[0], last.Seq)
	}
}

// Two logs of one topic that are not the same log have the same numbers for
// different notifications: they are refused by the topic's name, and nothing in the
// target's log changes.
func TestMergeRefusesAnotherLog(t *testing.T) {
	for name, count := range map[string]int{"as long": 1, "longer": 3} {
		t.Run(name, func(t *testing.T) {
			from, to := memory(t), memory(t)
			_, err := from.Log.Append(t.Context(), content(towers, 1), uuid.New(), noon)
			must(t, err)
			for i := range count {
				_, err := to.Log.Append(t.Context(), content(towers, 50+i), uuid.New(), noon)
				must(t, err)
			}
			for _, pair := range [][2]transfer.Engine{{from, to}, {to, from}} {
				before := export(t, pair[1])
				err = mergeInto(t, pair[1], export(t, pair[0]))
				if !errors.Is(err, transfer.ErrOtherLog) || !strings.Contains(err.Error(), towers) {
					t.Errorf("err = %v", err)
				}
				equalStreams(t, export(t, pair[1]), before)
			}
		})
	}
}

// Where the stream no longer has the notification that would tell, it is refused too.
func TestMergeRefusesWhatCannotBeTold(t *testing.T) {
	from, to := memory(t), memory(t)
	_, err := to.Log.Append(t.Context(), content(towers, 1), uuid.New(), noon)
	must(t, err)
	n := notification(towers, 9, 8)
	must(t, from.Target.PutTopics(t.Context(), []delivery.TopicState{{Topic: towers, First: 10, Head: 9, Last: lastOf(n)}}))
	must(t, from.Target.PutTopics(t.Context(), []delivery.TopicState{{Topic: "https://z.example/", First: 10, Head: 9, Last: lastOf(n)}}))
	for range 2 {
		if err := mergeInto(t, to, export(t, from)); !errors.Is(err, transfer.ErrOtherLog) || !strings.Contains(err.Error(), towers) {
			t.Errorf("err = %v", err)
		}
		must(t, from.Target.PutMembers(t.Context(), []delivery.Member{member(towers, "https://x.example/", 0, 9)}))
	}
	if topic.Key(towers) != towers {
		t.Error("the test means a topic that is its own key")
	}
}
