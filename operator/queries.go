package operator

import (
	"errors"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// Errors of a Desk, wrapped with what was asked for.
var (
	// ErrNotFound: there is no such topic, notification, subscription or Source.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the question makes no sense, as the text says.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: it cannot be done as things stand, as the text says.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: the store, or the process that has the answer, does not answer at
	// the moment; the same question may be answered later.
	ErrUnavailable = subscription.ErrUnavailable
)

// Bounds of what one answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// TopicQuery chooses topics. They come in the order of their keys.
type TopicQuery struct {
	// Contains is a part of the topic's URL, in any case of letters; empty: every topic.
	Contains string
	// Failing: only those with a subscription whose last attempt failed.
	Failing bool
	// After is the key of the last topic of the page before; empty: the first page.
	After string
	// Limit is how many; 0: DefaultLimit.
	Limit int
}

// TopicPage is an answer to a TopicQuery.
type TopicPage struct {
	Topics []Topic `json:"topics"`
	// Next is the After of the next page; empty: this is the last.
	Next string `json:"next,omitempty"`
	Coverage
}

// SubscriptionQuery chooses subscriptions: those that every field which is set is true of.
// They come in the order of their IDs.
type SubscriptionQuery struct {
	// Topic is the topic's URL, compared as WebSub §5.1.1 does.
	Topic string
	// Contains is a part of the callback's host or of the topic, in any case of letters, or
	// the whole ID.
	Contains string
	// Host is a part of the callback's scheme, host and port, or all of host and port in any spelling.
	Host string
	// State is one of the states; behind is all but idle.
	State string
	// Gapped: only those that have gaps.
	Gapped bool
	// LagOver: only those whose first notification to come was accepted longer ago.
	LagOver time.Duration
	// LeaseUnder: only those whose lease ends sooner than that.
	LeaseUnder time.Duration
	After      subscription.ID // zero: the first page
	Limit      int             // 0: DefaultLimit
}

// SubscriptionPage is an answer to a SubscriptionQuery.
type SubscriptionPage struct {
	Subscriptions []Subscription `json:"subscriptions"`
	// Matching is how many there are on all pages.
	Matching int `json:"matching"`
	// Next is the After of the next page; empty: this is the last.
	Next string `json:"next,omitempty"`
	Coverage
}

// NotificationPage are notifications of one topic, the newest first.
type NotificationPage struct {
	Notifications []Notification `json:"notifications"`
	// Next is the before of the next page; 0: this is the last.
	Next delivery.Seq `json:"next_before,omitempty"`
	Coverage
}

// TrimResult says what went from a log.
type TrimResult struct {
	Notifications int   `json:"notifications"`
	Bytes         int64 `json:"bytes"`
	// Trouble names the processes that did not hear of it, and may still deliver their copies in memory:
	// trim once more when they are well.
	Trouble []string `json:"trouble,omitempty"`
}

// NewSource is a Source that was added or has another token. Token is shown this once.
type NewSource struct {
	Source
	Token string `json:"token,omitempty"`
}
