package transfer

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// Format and Version are what a header says. Version rises with every change of
// the lines; a stream of a later version is refused, and of one before OldestVersion.
//
// Version 1 had no Sources; version 2 no replays, nor gaps that were replayed; version 3 no
// starts of requests, nor verify tokens.
const (
	Format        = "carillon export"
	Version       = 4
	OldestVersion = 1
)

// kind is the first field of every line.
type kind string

const (
	kindHeader       kind = "header"
	kindSource       kind = "source"
	kindTopic        kind = "topic"
	kindNotification kind = "notification"
	kindRequest      kind = "request"
	kindPing         kind = "ping"
	kindSubscription kind = "subscription"
	kindGap          kind = "gap"
	kindEnd          kind = "end"
)

// The lines. The order of their fields is the order in which they are written.

type headerLine struct {
	Kind     kind      `json:"kind"`
	Format   string    `json:"format"`
	Version  int       `json:"version"`
	Exported time.Time `json:"exported"`
	Hub      string    `json:"hub"`
	Engine   string    `json:"engine"`
}

type sourceLine struct {
	Kind     kind      `json:"kind"`
	Name     text      `json:"name"`
	Prefixes []text    `json:"topic_prefixes"`
	Token    digest    `json:"token_sha256"`
	Created  time.Time `json:"created"`
	Issued   time.Time `json:"token_issued"`
}

type topicLine struct {
	Kind   kind         `json:"kind"`
	Topic  text         `json:"topic"`
	Head   delivery.Seq `json:"head"`
	LastID uuid.UUID    `json:"last_id"`
	Until  text         `json:"last_until,omitempty"`
	Digest digest       `json:"last_digest,omitzero"`
}

type notificationLine struct {
	Kind        kind         `json:"kind"`
	Topic       text         `json:"topic"`
	Seq         delivery.Seq `json:"seq"`
	After       delivery.Seq `json:"after"`
	ID          uuid.UUID    `json:"id"`
	Accepted    time.Time    `json:"accepted"`
	ContentType text         `json:"content_type"`
	Links       []text       `json:"links,omitempty"`
	From        text         `json:"from,omitempty"`
	Until       text         `json:"until,omitempty"`
	Body        []byte       `json:"body"`
}

type requestLine struct {
	Kind     kind              `json:"kind"`
	ID       uuid.UUID         `json:"id"`
	Token    uuid.UUID         `json:"token"`
	Mode     subscription.Mode `json:"mode"`
	Topic    text              `json:"topic"`
	Callback text              `json:"callback"`
	Secret   text              `json:"secret,omitempty"`
	Lease    duration          `json:"lease,omitempty"`
	Received time.Time         `json:"received"`
	Verify   text              `json:"verify_token,omitempty"`
	Since    time.Time         `json:"since,omitzero"`
	Start    delivery.Seq      `json:"start,omitempty"`
}

type pingLine struct {
	Kind  kind `json:"kind"`
	Topic text `json:"topic"`
}

type subscriptionLine struct {
	Kind        kind         `json:"kind"`
	ID          uuid.UUID    `json:"id"`
	Topic       text         `json:"topic"`
	Callback    text         `json:"callback"`
	Secret      text         `json:"secret,omitempty"`
	Start       delivery.Seq `json:"start"`
	Lease       duration     `json:"lease"`
	Expires     time.Time    `json:"expires"`
	Created     time.Time    `json:"created"`
	Settled     delivery.Seq `json:"settled"`
	Failures    uint32       `json:"failures,omitempty"`
	NextAttempt time.Time    `json:"next_attempt,omitzero"`
	LastFailure failureClass `json:"last_failure,omitempty"`
	LastStatus  uint16       `json:"last_status,omitempty"`
	ReplayNext  delivery.Seq `json:"replay_next,omitempty"`
	ReplayLast  delivery.Seq `json:"replay_last,omitempty"`
}

type gapLine struct {
	Kind         kind         `json:"kind"`
	Subscription uuid.UUID    `json:"subscription"`
	First        delivery.Seq `json:"first"`
	Last         delivery.Seq `json:"last"`
	Reason       gapReason    `json:"reason"`
	Failure      failureClass `json:"failure,omitempty"`
	At           time.Time    `json:"at"`
	Replayed     time.Time    `json:"replayed,omitzero"`
}

type endLine struct {
	Kind kind `json:"kind"`
	Counts
	SHA256 digest `json:"sha256"`
}

// text is a string of any bytes. JSON has only those that are UTF-8; the others
// are written in base64.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if !utf8.ValidString(string(t)) {
		return json.Marshal(anyBytes{[]byte(t)})
	}
	var b bytes.Buffer
	err := plainEncoder(&b).Encode(string(t))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b anyBytes
		err := strict(data, &b)
		*t = text(b.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

// plainEncoder leaves the & of addresses readable: nothing here goes into HTML.
func plainEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

type anyBytes struct {
	Base64 []byte `json:"base64"`
}

// digest is a SHA-256 in hexadecimal.
type digest [32]byte

func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

func (d *digest) UnmarshalText(data []byte) error {
	if hex.DecodedLen(len(data)) != len(d) || len(data)%2 != 0 {
		return errors.New("a SHA-256 has 64 hexadecimal digits")
	}
	_, err := hex.Decode(d[:], data)
	return err
}

// duration is written as Go writes it ("240h0m0s"), which is exact.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(data []byte) (err error) {
	var v time.Duration
	v, err = time.ParseDuration(string(data))
	*d = duration(v)
	return err
}

// failureClass is written by its name.
type failureClass delivery.Class

func (c failureClass) MarshalText() ([]byte, error) {
	return named(delivery.Class(c).String(), delivery.Class(c))
}

func (c *failureClass) UnmarshalText(data []byte) error {
	class, err := byName[delivery.Class](string(data))
	*c = failureClass(class)
	return err
}

// gapReason is written by its name.
type gapReason delivery.GapReason

func (r gapReason) MarshalText() ([]byte, error) {
	return named(delivery.GapReason(r).String(), delivery.GapReason(r))
}

func (r *gapReason) UnmarshalText(data []byte) error {
	reason, err := byName[delivery.GapReason](string(data))
	*r = gapReason(reason)
	return err
}

// number is one that has a name; "unknown" is the name of those that have none.
type number interface {
	~uint8
	String() string
}

func named[T number](name string, n T) ([]byte, error) {
	if name == "unknown" {
		return nil, fmt.Errorf("%T %d has no name", n, uint8(n))
	}
	return []byte(name), nil
}

func byName[T number](name string) (T, error) {
	for n := range 256 {
		if v := T(n); name != "unknown" && v.String() == name {
			return v, nil
		}
	}
	return 0, fmt.Errorf("unknown name %.40q", name)
}

// maxOverhead is what a line may have beside the base64 of a body: topics,
// callbacks, secrets and links, each bounded by what an HTTP request may have.
const maxOverhead = 4 << 20

// maxLine is how long the line of a notification with the largest body may be.
func maxLine(maxBody int64) int64 {
	return int64(base64.StdEncoding.EncodedLen(int(maxBody))) + maxOverhead
}

// kindOf reads the kind, which every line begins with.
func kindOf(line []byte) (kind, error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"kind":"`))
	name, _, found := bytes.Cut(rest[:min(len(rest), 32)], []byte(`"`))
	if !ok || !found {
		return "", errors.New("a line that does not begin with its kind")
	}
	return kind(name), nil
}

// strict decodes one JSON value that has no fields but those of v.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the record")
	}
	return nil
}
