package deliverytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// plain is content without an interval.
func plain(topicURL, body string) delivery.Publication {
	return delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte(body)}
}

// change is a notification of the n-th second.
func change(topicURL string, n int) delivery.Publication {
	at := func(n int) string { return start.Add(time.Duration(n) * time.Second).Format(time.RFC3339Nano) }
	return delivery.Publication{
		Topic: topic.Parse(topicURL), ContentType: "application/xml", Body: fmt.Appendf(nil, "<urlset>%d</urlset>", n),
		From: at(n), Until: at(n + 1),
	}
}

func appendTo(t *testing.T, l delivery.Log, p delivery.Publication) delivery.Receipt {
	t.Helper()
	receipt, err := l.Append(t.Context(), p, uuid.New(), start)
	must(t, err)
	return receipt
}

// appendMany appends n notifications, accepted a second apart from start on, and
// returns their numbers.
func appendMany(t *testing.T, l delivery.Log, topic string, n int) (seqs []delivery.Seq) {
	t.Helper()
	for i := range n {
		receipt, err := l.Append(t.Context(), change(topic, i), uuid.New(), start.Add(time.Duration(i)*time.Second))
		must(t, err)
		seqs = append(seqs, receipt.Seq)
	}
	return seqs
}

// kept reads which sequence numbers of the topic are there.
func kept(t *testing.T, l delivery.Log, key string) (seqs []delivery.Seq) {
	t.Helper()
	for from := delivery.Seq(0); ; {
		n, err := l.Read(t.Context(), key, from)
		if errors.Is(err, delivery.ErrEndOfLog) {
			return seqs
		}
		must(t, err)
		seqs = append(seqs, n.Seq)
		from = n.Seq + 1
	}
}

// trim trims a log that must not fail.
func trim(t *testing.T, l delivery.Log, key string, before delivery.Seq, olderThan time.Time) delivery.Trimmed {
	t.Helper()
	went, err := l.Trim(t.Context(), key, before, olderThan)
	must(t, err)
	return went
}

// wantKept checks which sequence numbers of the topic are there.
func wantKept(t *testing.T, l delivery.Log, key string, want ...delivery.Seq) {
	t.Helper()
	if got := kept(t, l, key); !slices.Equal(got, want) {
		t.Fatalf("the log has %v, want %v", got, want)
	}
}

func wantHead(t *testing.T, l delivery.Log, key string, want delivery.Seq) {
	t.Helper()
	got, err := l.Heads(t.Context(), []string{key})
	must(t, err)
	if len(got) != 1 || got[0] != want {
		t.Fatalf("heads are %d, want %d", got, want)
	}
}

// counted checks what a log says that its notifications take.
func counted(bytes int64, kept, bodies int) error {
	if bytes < int64(bodies+kept) || bytes > int64(bodies+kept*mostBesides) {
		return fmt.Errorf("%d notifications with bodies of %d bytes count for %d", kept, bodies, bytes)
	}
	return nil
}

// stateOf finds the state of a topic; the zero state if it has no log.
func stateOf(t *testing.T, l delivery.Log, key string) (found delivery.TopicState) {
	t.Helper()
	for state, err := range l.Topics(t.Context()) {
		must(t, err)
		if state.Topic == key {
			found = state
		}
	}
	return found
}

// wantCounted checks what a topic's log says that it takes.
func wantCounted(t *testing.T, l delivery.Log, key string) {
	t.Helper()
	kept, bodies := 0, 0
	for n, err := l.Read(t.Context(), key, 0); err == nil; n, err = l.Read(t.Context(), key, n.Seq+1) {
		kept++
		bodies += len(n.Body)
	}
	must(t, counted(stateOf(t, l, key).Bytes, kept, bodies))
}

// shrink shrinks a log that must not fail.
func shrink(t *testing.T, l delivery.Log, key string, keep int64, olderThan time.Time) delivery.Trimmed {
	t.Helper()
	went, err := l.Shrink(t.Context(), key, keep, delivery.MaxSeq, olderThan)
	must(t, err)
	return went
}

// appendSizes appends notifications with bodies of these sizes, accepted a second
// apart from start on.
func appendSizes(t *testing.T, l delivery.Log, topic string, sizes ...int) (seqs []delivery.Seq) {
	t.Helper()
	for i, size := range sizes {
		p := plain(topic, strings.Repeat("x", size))
		receipt, err := l.Append(t.Context(), p, uuid.New(), start.Add(time.Duration(i)*time.Second))
		must(t, err)
		seqs = append(seqs, receipt.Seq)
	}
	return seqs
}
