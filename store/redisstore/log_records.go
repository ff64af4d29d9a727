package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/topic"
)

// The fields of an entry of a log.
const (
	fieldAfter = "a" // Notification.After
	fieldNote  = "m" // encodeNote
	fieldBody  = "b"
)

// The fields of an entry of the times. Scripts count on the time and the size as the
// first two.
const (
	fieldTime    = "t"
	fieldSize    = "s"
	fieldSummary = "n" // encodeSummary; an entry of before has none
)

// noteVersion begins every record of a notification of this layout.
const noteVersion = "1"

// encodeNote makes the record that an entry of a log has beside the body: a list of
// the version, the ID, when it was accepted, the topic, the content type, From, Until,
// the length of the body, and the links.
func encodeNote(p delivery.Publication, id uuid.UUID, accepted time.Time) string {
	return encodeList(append([]string{
		noteVersion, id.String(), encodeInstant(accepted), p.Topic.String(), p.ContentType, p.From, p.Until,
		strconv.Itoa(len(p.Body)),
	}, p.Links...))
}

// entry is an entry of a log, as the server gives it.
type entry struct {
	id     string // SEQ-0
	fields map[string]any
}

// place is the number of the entry, also of one that is not the hub's.
func (e entry) place() (uint64, error) {
	number, rest, _ := strings.Cut(e.id, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: the id %q is no number", ErrDamaged, e.id)
	case rest != "0" || seq > uint64(delivery.MaxSeq):
		return seq, fmt.Errorf("%w: the id %q is not of this hub", ErrDamaged, e.id)
	}
	return seq, nil
}

// decodeEntry reads an entry of the log of the topic with the key.
func decodeEntry(key string, e entry) (*delivery.Notification, error) {
	body, whole := e.fields[fieldBody].(string)
	length := len(body)
	if !whole {
		length = -1
	}
	n, err := decodeHead(key, e, length)
	if err != nil {
		return nil, err
	}
	n.Body = []byte(body)
	return n, nil
}

// decodeHead reads what an entry of the log has beside its body, which is so long.
func decodeHead(key string, e entry, length int) (*delivery.Notification, error) {
	seq, err := e.place()
	if err != nil {
		return nil, err
	}
	note, _ := e.fields[fieldNote].(string)
	n, bodyLen, err := decodeNote(note)
	if err != nil {
		return nil, err
	}
	n.Seq = delivery.Seq(seq)
	after, _ := e.fields[fieldAfter].(string)
	if n.After, err = decodeAfter(after, seq); err != nil {
		return nil, err
	}
	if length != bodyLen {
		return nil, fmt.Errorf("%w: a body of %d bytes, not %d", ErrDamaged, length, bodyLen)
	}
	if n.Topic.Key() != key {
		return nil, fmt.Errorf("%w: it is of the topic %q", ErrDamaged, n.Topic)
	}
	return n, nil
}

// decodeAfter reads the number of the one before seq.
func decodeAfter(text string, seq uint64) (delivery.Seq, error) {
	before, err := strconv.ParseUint(text, 10, 64)
	if err != nil || before >= seq {
		return 0, fmt.Errorf("%w: it comes after %q", ErrDamaged, text)
	}
	return delivery.Seq(before), nil
}

func decodeNote(record string) (n *delivery.Notification, bodyLen int, err error) {
	list, err := decodeList(record)
	if err != nil {
		return nil, 0, err
	}
	if len(list) < 8 || list[0] != noteVersion {
		return nil, 0, fmt.Errorf("%w: a notification of %d fields", ErrDamaged, len(list))
	}
	n = &delivery.Notification{Publication: delivery.Publication{
		Topic: topic.Parse(list[3]), ContentType: list[4], From: list[5], Until: list[6],
	}}
	if len(list) > 8 {
		n.Links = list[8:]
	}
	if n.ID, err = uuid.Parse(list[1]); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if n.Accepted, err = decodeInstant(list[2]); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if bodyLen, err = strconv.Atoi(list[7]); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, bodyLen, nil
}

// usualLength is room for the length of a string and the colon.
const usualLength = 5

// encodeList writes strings of any bytes after each other, each as its length in
// decimal, a colon and itself.
func encodeList(list []string) string {
	var b strings.Builder
	size := 0
	for _, s := range list {
		size += len(s) + usualLength
	}
	b.Grow(size)
	for _, s := range list {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	return b.String()
}

func decodeList(record string) (list []string, err error) {
	for rest := record; rest != ""; {
		length, after, _ := strings.Cut(rest, ":")
		n, err := strconv.ParseUint(length, 10, 32)
		if err != nil || n > uint64(len(after)) {
			return nil, fmt.Errorf("%w: a list is cut off", ErrDamaged)
		}
		list, rest = append(list, after[:n]), after[n:]
	}
	return list, nil
}

// since0 is the beginning of the year 1, in Unix seconds.
const since0 = -62135596800

// timeOrder writes a time so that the texts compare as the times do: the seconds since
// the year 1 and the nanoseconds. The times of a log are never before that.
func timeOrder(t time.Time) string {
	return fmt.Sprintf("%020d%09d", max(t.Unix()-since0, 0), t.Nanosecond())
}

// instantOf is the time that order wrote; zero for what it has not written.
func instantOf(text string) time.Time {
	if len(text) != 29 {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(text[:20], 10, 64)
	nanos, nanosErr := strconv.ParseInt(text[20:], 10, 64)
	if err != nil || nanosErr != nil {
		return time.Time{}
	}
	return time.Unix(seconds+since0, nanos).UTC()
}

// summaryVersion begins every summary of this layout.
const summaryVersion = "1"

// encodeSummary makes the record that an entry of the times has: a list of the version,
// the ID, the content type, From, Until, and the length of the body.
func encodeSummary(p delivery.Publication, id uuid.UUID) string {
	return encodeList([]string{
		summaryVersion, id.String(), p.ContentType, p.From, p.Until, strconv.Itoa(len(p.Body)),
	})
}

// decodeSummary reads an entry of the times.
func decodeSummary(e entry) (s delivery.Summary, err error) {
	seq, err := e.place()
	if err != nil {
		return s, err
	}
	text := func(field string) string { t, _ := e.fields[field].(string); return t }
	list, err := decodeList(text(fieldSummary))
	if err != nil {
		return s, err
	}
	if len(list) != 6 || list[0] != summaryVersion {
		return s, fmt.Errorf("%w: a summary of %d fields", ErrDamaged, len(list))
	}
	s = delivery.Summary{
		Seq: delivery.Seq(seq), Accepted: instantOf(text(fieldTime)),
		ContentType: list[2], From: list[3], Until: list[4],
	}
	if s.ID, err = uuid.Parse(list[1]); err != nil {
		return s, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if s.Bytes, err = strconv.ParseInt(list[5], 10, 64); err != nil || s.Bytes < 0 {
		return s, fmt.Errorf("%w: a body of %q bytes", ErrDamaged, list[5])
	}
	s.After, err = decodeAfter(text(fieldAfter), seq)
	return s, err
}
