package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"carillon/topic"
)

// Seq is the place of a notification in its topic's log. Numbers rise from one notification to the
// next, not always by one. A log never gives a number twice, even after it has lost its end.
// Notification.After names the one before. 0 stands before everything; MaxSeq is the largest.
type Seq uint64

// MaxSeq is the highest sequence number: what a script of an engine still counts exactly.
const MaxSeq Seq = 1<<53 - 1

// Publication is what a Source hands in: the content of a topic, to be relayed
// byte for byte.
type Publication struct {
	// Topic is the canonical URL of the topic: the rel=self that deliveries carry.
	Topic       topic.Address
	ContentType string
	// Links are the further Link values that the Source sent, each as it goes
	// into a Link header (`<URI>; rel="resourcesync"`), without rel=self and rel=hub.
	Links []string
	Body  []byte
	// From and Until are the interval that a ResourceSync notification
	// covers, as it states them; both empty for other content.
	From, Until string
}

// Digest is equal for two publications only if body and interval are; it is zero
// for one that covers no interval.
func (p Publication) Digest() (sum [32]byte) {
	if p.From == "" || p.Until == "" {
		return sum
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %d ", len(p.From), len(p.Until)) // keeps the three fields apart
	h.Write([]byte(p.From))
	h.Write([]byte(p.Until))
	h.Write(p.Body)
	h.Sum(sum[:0])
	return sum
}

// Notification is a publication that was accepted: one record of a log. It is
// shared by all deliveries of it and never changed.
type Notification struct {
	Publication
	// ID is the same on every delivery and retry, from every process
	// (X-Hub-Notification-Id).
	ID  uuid.UUID
	Seq Seq
	// After is the sequence number of the notification appended before it, kept or not; 0 for the first of
	// its log. A subscription that is settled up to After misses nothing between.
	After Seq
	// Accepted is when the hub took it.
	Accepted time.Time
}

// Summary is a notification without its body, which the log need not read.
type Summary struct {
	// Seq, After, ID and Accepted are the Notification's.
	Seq, After Seq
	ID         uuid.UUID
	Accepted   time.Time
	// ContentType, From and Until are the Publication's.
	ContentType string
	From, Until string
	Bytes       int64 // of the body
}

// Receipt gives the outcome of a publication.
type Receipt struct {
	ID  uuid.UUID
	Seq Seq
	// Repeated: this is the notification that was appended last, handed in
	// again; ID and Seq are those of then and nothing was appended.
	Repeated bool
	// Previous is the Until of the notification before this one, empty if this is the first or the one
	// before covered no interval.
	Previous string
}

// TopicState is a topic's log at one moment.
type TopicState struct {
	Topic string // the topic's key (topic.Key)
	// First is the oldest sequence number that is kept, and Head the last
	// one appended; First = Head+1 where nothing is kept.
	First, Head Seq
	// Last is the notification with Head.
	Last Last
	// Oldest is when the notification with First was accepted; zero where nothing is kept, or the time is
	// unknown.
	Oldest time.Time
	// Bytes is about what the notifications that are kept take: their bodies,
	// and what is stored with them. 0 where nothing is kept.
	Bytes int64
}

// Trimmed is what went from a log.
type Trimmed struct {
	Notifications int
	Bytes         int64 // as TopicState.Bytes counts them
}

// Last is what a log remembers of the notification that was appended last, also
// when it is trimmed.
type Last struct {
	ID uuid.UUID
	// Until is the end of the interval that it covers, empty if it covers none.
	Until string
	// Digest is that of its publication where it covers an interval (Publication.Digest), by which a
	// repeated publication is recognized; zero otherwise.
	Digest [32]byte
}

// Log keeps the notifications of each topic, in order. A topic's log begins with the first Append,
// and is found by the topic's key: topic.Key of an address, or topic.Address.Key.
//
// All methods may be called from any goroutine. Trouble with the engine itself
// is wrapped as ErrUnavailable.
type Log interface {
	Appender
	Reader
	Trimmer
}

// Appender is the end of a Log where notifications come in.
type Appender interface {
	// Append adds one notification to the end of its topic's log with a sequence number above all before,
	// under the given id and time. It is durable when Append returns nil; appends that run at the same
	// time share the cost of durability. When Append returns an error the record may or may not be there.
	//
	// A publication that covers an interval (From and Until set) and equals the last one appended to its
	// topic, in body and interval, is not appended again: a Source without an answer may repeat itself.
	// The last append is remembered beyond Trim.
	Append(ctx context.Context, p Publication, id uuid.UUID, accepted time.Time) (Receipt, error)
}

// Reader reads a Log.
type Reader interface {
	// Read returns the first notification with a sequence number of at
	// least from, or ErrEndOfLog. Its Seq is greater than from where the
	// log was trimmed, or a record cannot be read back.
	Read(ctx context.Context, key string, from Seq) (*Notification, error)

	// Summaries returns the latest notifications with sequence numbers below before, 0: of all, newest
	// first, at most limit. It reads no body. Records that cannot be read are left out; one of which only
	// the body is damaged may be among the results.
	Summaries(ctx context.Context, key string, before Seq, limit int) ([]Summary, error)

	// Summary is as Read without the body: it returns the first notification with a
	// sequence number of at least from, or ErrEndOfLog.
	Summary(ctx context.Context, key string, from Seq) (Summary, error)

	// Heads returns the sequence number of each topic's last notification, 0 for a topic that never had
	// one. Trimming does not change it. The results are durable: deliveries go up to them. A head falls
	// only where the engine has lost acknowledged records. Where a part of the engine is away the error is
	// a *HeadsError, beside the heads that were read.
	Heads(ctx context.Context, keys []string) ([]Seq, error)

	// State gives the state of one topic. Head is 0 and First 1 for one that has no log. A
	// state that cannot be read back is an error.
	State(ctx context.Context, key string) (TopicState, error)

	// Keys gives the key of every topic that has a log, once each and in no order, which
	// takes a small part of what Topics does. One whose first Append is not done may be
	// among them, and one whose state cannot be read back.
	Keys(ctx context.Context) iter.Seq2[string, error]

	// Topics gives the state of every topic that has a log.
	Topics(ctx context.Context) iter.Seq2[TopicState, error]
}

// Trimmer removes from a Log what is no longer needed.
type Trimmer interface {
	// Trim removes the topic's notifications with sequence numbers below before that were accepted before
	// olderThan, from the oldest on up to the first that is not both. It need not be durable, and never
	// moves Head. It returns the removed part also where an error ended it.
	Trim(ctx context.Context, key string, before Seq, olderThan time.Time) (Trimmed, error)

	// Shrink is as Trim, and stops as well where what is left takes at most keep
	// bytes (TopicState.Bytes).
	Shrink(ctx context.Context, key string, keep int64, before Seq, olderThan time.Time) (Trimmed, error)
}

// Ping is a topic whose Source said that it has changed and which the hub has
// not fetched yet.
type Ping struct {
	Topic topic.Address // as in the request
	// Count distinguishes a ping from a later one for the same topic.
	Count uint64
}

// Pings keeps the pings that wait for their fetch, by the keys of their topics. Of the processes that
// share an engine the one that owns subscription.TopicShard of a topic fetches it. All methods may be
// called from any goroutine; trouble with the engine itself is wrapped as ErrUnavailable.
type Pings interface {
	// Ping records that the topics have changed, all or none, and is durable
	// when it returns nil. A topic that waits already is noted once, with a
	// Count that has risen. A Count never returns, also after Fetched. The
	// pings as noted come back, in the order given.
	Ping(ctx context.Context, topics []topic.Address) ([]Ping, error)

	// Fetched forgets the ping, unless another for the same topic came since: left is then that one, still
	// waiting.
	Fetched(ctx context.Context, p Ping) (left *Ping, err error)

	// Waiting gives every recorded ping: the ones that a start must carry on with.
	Waiting(ctx context.Context) iter.Seq2[Ping, error]
}
