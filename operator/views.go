package operator

import (
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// The types in this file are also answers of the JSON API: names are the API's, times are RFC 3339 in
// UTC, and a name that ends in _seconds is a number of seconds.

// Coverage says how much of the hub an answer is about.
type Coverage struct {
	// MissingShards is how many of the 64 shards no process answered for; 0: the answer
	// is whole.
	MissingShards int `json:"missing_shards"`
	// Trouble has the reasons, one line for each process that did not answer, and for shards without a
	// holder.
	Trouble []string `json:"trouble,omitempty"`
}

// Counts is how things stand in one process, or in all of them.
type Counts struct {
	Topics        int   `json:"topics"` // with subscriptions
	Subscriptions int   `json:"subscriptions"`
	Behind        int   `json:"behind"`  // have something to get
	Failing       int   `json:"failing"` // of those, whose last attempt failed
	InFlight      int   `json:"in_flight"`
	SlowAttempts  int   `json:"slow_attempts"` // of those in flight
	Unsaved       int   `json:"unsaved"`       // outcomes whose positions are not saved yet
	Requests      int   `json:"requests"`      // subscribe and unsubscribe requests that wait to be verified
	BodyBytes     int64 `json:"body_bytes"`    // of bodies that attempts under way hold
	MaxBodyBytes  int64 `json:"max_body_bytes"`
}

// Connections counts the connections to callbacks and topics, of one process or of all. Memory is
// estimated; totals are since the start of each process.
type Connections struct {
	Open            int    `json:"open"`     // those being opened included
	Idle            int    `json:"idle"`     // of those, kept for the next request
	MaxOpen         int    `json:"max_open"` // idle ones are closed where there are more
	Hosts           int    `json:"hosts"`    // with connections
	RememberedHosts int    `json:"remembered_hosts"`
	IdleBytes       int64  `json:"idle_bytes"`
	MaxIdleBytes    int64  `json:"max_idle_bytes"`
	SessionBytes    int64  `json:"session_bytes"` // of TLS sessions
	MaxSessionBytes int64  `json:"max_session_bytes"`
	Plain           uint64 `json:"opened_plain"`   // without TLS
	Full            uint64 `json:"opened_full"`    // with a full TLS handshake
	Resumed         uint64 `json:"opened_resumed"` // with that of a resumed session
	Dropped         uint64 `json:"dropped"`        // idle ones, for want of files or memory
}

// Alone names the process of a hub that shares its store with no other. It is not shown to people.
const Alone = "self"

// Process is one hub process.
type Process struct {
	ID           string    `json:"id"`
	Self         bool      `json:"self"` // the one that answers
	Version      string    `json:"version"`
	Started      time.Time `json:"started"`
	Shards       []int     `json:"shards"`        // held and read
	Loading      int       `json:"loading"`       // held and still being read
	StoreFailing bool      `json:"store_failing"` // no attempt starts: the engine fails
	Unsure       bool      `json:"unsure"`        // no attempt starts: another process may hold the shards
	Counts       Counts    `json:"counts"`

	Connections Connections `json:"connections"`
}

// Check is one of the checks of /readyz.
type Check struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

// Overview is the hub at a glance.
type Overview struct {
	At        time.Time `json:"at"`
	URL       string    `json:"url"`
	Engine    string    `json:"engine"` // pebble or redis
	Ready     bool      `json:"ready"`
	Checks    []Check   `json:"checks"`
	Warnings  []string  `json:"warnings"`
	Processes []Process `json:"processes"`
	Counts    Counts    `json:"counts"`
	// Connections are those of all processes together.
	Connections Connections `json:"connections"`
	// OldestWaitingSeconds is the age of the oldest notification that a subscription still has to get,
	// without replays; 0: none wait. It is the greatest of the processes' carillon_delivery_lag_seconds.
	LagSeconds float64 `json:"lag_seconds"`
	// Series are the last ten minutes of all processes together, in steps, the oldest first.
	Series []Step `json:"series"`
	Coverage
}

// Step is what happened in one step of time.
type Step struct {
	At        time.Time      `json:"at"` // its end
	Seconds   float64        `json:"seconds"`
	Published int            `json:"published"`
	Delivered int            `json:"delivered"`
	Failed    map[string]int `json:"failed"` // attempts by class of failure, those that happened
	// P50, P90 and P99 are of the time that attempts took, seconds; 0 without one.
	P50 float64 `json:"p50_seconds"`
	P90 float64 `json:"p90_seconds"`
	P99 float64 `json:"p99_seconds"`
	// Behind is how many subscriptions had something to get, at the end of the step.
	Behind int `json:"behind"`
}

// Topic is a topic with its log and its subscribers.
type Topic struct {
	Topic string       `json:"topic"`
	First delivery.Seq `json:"first_seq"` // the oldest that is kept
	Head  delivery.Seq `json:"head_seq"`  // 0: nothing was ever published
	Bytes int64        `json:"bytes"`
	// Oldest is when the notification with First was accepted, and Published when that
	// with Head was; zero: not known.
	Oldest    time.Time `json:"oldest,omitzero"`
	Published time.Time `json:"published,omitzero"`
	LastID    uuid.UUID `json:"last_id,omitzero"`
	LastUntil string    `json:"last_until,omitempty"`

	Subscriptions int `json:"subscriptions"`
	Behind        int `json:"behind"`
	Failing       int `json:"failing"`
	// Breaks are the continuity breaks since the processes started.
	Breaks int `json:"continuity_breaks"`
	// Coverage, in an answer about one topic, is there where that is not whole.
	Coverage *Coverage `json:"coverage,omitempty"`
}

// Tally gives the outcome of a notification, over the subscriptions that stand now and
// that began before it. Subscribers = Delivered + Pending + GivenUp + Trimmed.
type Tally struct {
	Subscribers int `json:"subscribers"`
	Delivered   int `json:"delivered"`
	Pending     int `json:"pending"`
	Failing     int `json:"failing"`  // of those pending, whose last attempt failed
	GivenUp     int `json:"given_up"` // the retry limits were reached (WebSub §7)
	Trimmed     int `json:"trimmed"`  // the log no longer had it
}

// Notification is one notification of a topic's log and the outcome of it.
type Notification struct {
	ID          uuid.UUID    `json:"id"`
	Topic       string       `json:"topic"`
	Seq         delivery.Seq `json:"seq"`
	Accepted    time.Time    `json:"accepted"`
	ContentType string       `json:"content_type"`
	Bytes       int64        `json:"bytes"` // of its body
	From        string       `json:"from,omitempty"`
	Until       string       `json:"until,omitempty"`
	// Break: From is not the Until of the one before.
	Break bool  `json:"continuity_break"`
	Tally Tally `json:"tally"`
}

// NotificationDetail is a notification with those who have not got it.
type NotificationDetail struct {
	Notification
	// Missing are subscriptions that have not got it, by ID, at most 1000 (MissingMore:
	// there are more). Their Outcome says how it stands.
	Missing     []Missing `json:"missing"`
	MissingMore bool      `json:"missing_more"`
	Coverage
}

// Missing is a subscription that has not got a notification.
type Missing struct {
	Subscription
	Outcome string `json:"outcome"` // pending, failing, given_up or trimmed
}

// The states of a subscription.
const (
	StateIdle     = "idle"      // it has got everything
	StateReady    = "ready"     // it waits for its turn
	StateInFlight = "in_flight" // an attempt is under way
	StateFailing  = "failing"   // its last attempt failed, and it waits for the next
)

// Subscription is an active subscription as lists show it.
type Subscription struct {
	ID           subscription.ID `json:"id"`
	Topic        string          `json:"topic"`
	CallbackHost string          `json:"callback_host"` // scheme, name and port
	State        string          `json:"state"`
	Process      string          `json:"process"` // who delivers to it
	Signed       bool            `json:"signed"`  // it has a secret
	Created      time.Time       `json:"created"`
	Expires      time.Time       `json:"expires"`
	LeaseSeconds float64         `json:"lease_left_seconds"`
	Start        delivery.Seq    `json:"start_seq"`   // it gets what comes after
	Settled      delivery.Seq    `json:"settled_seq"` // its cursor
	Head         delivery.Seq    `json:"head_seq"`
	// WaitingSince is when the first that it has not got was accepted; zero: nothing, or not known.
	LagSince     time.Time `json:"lag_since,omitzero"`
	LagSeconds   float64   `json:"lag_seconds"`          // the time since then, 0 for none
	Gapped       bool      `json:"gapped"`               // there are gaps
	Failures     uint32    `json:"failures"`             // in a row
	LastClass    string    `json:"last_class,omitempty"` // of the last failure, where Failures > 0
	LastStatus   uint16    `json:"last_status,omitempty"`
	NextAttempt  time.Time `json:"next_attempt,omitzero"`
	Replay       *Replay   `json:"replay,omitempty"`
	TestCallback bool      `json:"test_callback"` // it is the hub's own test callback
}

// Replay is a stretch of a log that is delivered to a subscription once more.
type Replay struct {
	Next delivery.Seq `json:"next_seq"`
	Last delivery.Seq `json:"last_seq"`
}

// SubscriptionDetail is all about one subscription.
type SubscriptionDetail struct {
	Subscription
	Callback string    `json:"callback"`
	Attempts []Attempt `json:"attempts"` // the latest that are remembered, newest first
	Gaps     []Gap     `json:"gaps"`     // the latest, newest first, at most 100
}

// Attempt is one delivery attempt. They are in memory only: a restart, or another
// process that takes the subscription over, begins anew.
type Attempt struct {
	At      time.Time    `json:"at"` // its end
	Seconds float64      `json:"seconds"`
	Seq     delivery.Seq `json:"seq"`
	Number  uint32       `json:"number"` // 1: the first of this notification
	Class   string       `json:"class"`
	Status  uint16       `json:"status,omitempty"`
	Error   string       `json:"error,omitempty"`
	Replay  bool         `json:"replay"` // it was a part of a replay
}

// Gap is a stretch that a subscription did not get.
type Gap struct {
	First    delivery.Seq `json:"first_seq"`
	Last     delivery.Seq `json:"last_seq"`
	Reason   string       `json:"reason"` // given_up or trimmed
	Class    string       `json:"class,omitempty"`
	At       time.Time    `json:"at"`
	Replayed time.Time    `json:"replayed,omitzero"` // when it was delivered after all
}

// Source is a registered Source.
type Source struct {
	Name     string    `json:"name"`
	Prefixes []string  `json:"topic_prefixes"`
	Created  time.Time `json:"created"`
	Issued   time.Time `json:"token_issued"`
}

// Heard is one thing that a test callback saw.
type TestEvent struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // waiting, verified, denied, notification, ended
	Text string    `json:"text"` // one line for people
	// Of a notification:
	ID          string   `json:"id,omitempty"`
	ContentType string   `json:"content_type,omitempty"`
	Links       []string `json:"links,omitempty"`
	Bytes       int64    `json:"bytes,omitempty"`
	Signature   string   `json:"signature,omitempty"` // the header, and "good" or what is wrong with it
	From        string   `json:"from,omitempty"`
	Until       string   `json:"until,omitempty"`
	Body        string   `json:"body,omitempty"` // the first 4 KiB, valid UTF-8
	BodyMore    bool     `json:"body_more,omitempty"`
}
