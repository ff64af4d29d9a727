package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// DecodeAll reads the text as each kind of record and name that a store has. A readable record must be
// the same when it is written and read again; any other is ErrDamaged. The other two texts stand
// beside it where a record has several, as an entry's body.
func DecodeAll(text, name, beside string) error {
	var id subscription.ID
	return errors.Join(
		again("subscription", text, func(s string) (subscription.Subscription, error) { return decodeSubscription(id, s) },
			func(v subscription.Subscription) string { return string(encodeSubscription(v)) }),
		again("request", text, func(s string) (subscription.Request, error) { return decodeRequest(id, s) },
			func(v subscription.Request) string { return string(encodeRequest(v)) }),
		again("position", text, decodePosition, encodePosition),
		again("gap", text, func(s string) (delivery.Gap, error) { return decodeGap(id, s) }, encodeGap),
		again("id", text, parseID, func(v subscription.ID) string { return string(appendID(nil, v)) }),
		again("ping", text, func(s string) (delivery.Ping, error) { return decodePing(name, s) },
			func(p delivery.Ping) string { return fmt.Sprintf("%d %s", p.Count, p.Topic) }),
		sourceAgain(name, text), listAgain(text), summaryAgain(text, beside), entryAgain(text, name, beside), stateOf(text, name, beside))
}

func again[T comparable](what, text string, decode func(string) (T, error), encode func(T) string) error {
	v, err := decode(text)
	if err != nil {
		return onlyDamaged(what, err)
	}
	if w, err := decode(encode(v)); err != nil || w != v {
		return fmt.Errorf("%s %q: %#v became %#v, error %w", what, text, v, w, err)
	}
	return nil
}

func onlyDamaged(what string, err error) error {
	if err == nil || errors.Is(err, ErrDamaged) {
		return nil
	}
	return fmt.Errorf("%s: error %w", what, err)
}

func sourceAgain(name, text string) error {
	v, err := decodeSource(name, text)
	if err != nil {
		return onlyDamaged("Source", err)
	}
	if w, err := decodeSource(name, string(encodeSource(v))); err != nil || !w.Same(v) {
		return fmt.Errorf("Source %q: %#v became %#v, error %w", text, v, w, err)
	}
	return nil
}

func listAgain(text string) error {
	list, err := decodeList(text)
	if err != nil {
		return onlyDamaged("list", err)
	}
	if back, err := decodeList(encodeList(list)); err != nil || !slices.Equal(back, list) {
		return fmt.Errorf("list %q became %q, error %w", list, back, err)
	}
	return nil
}

func summaryAgain(text, beside string) error {
	_, err := decodeSummary(entry{id: text, fields: map[string]any{fieldSummary: beside, fieldTime: text, fieldAfter: beside}})
	if onlyDamaged("summary of rubbish", err) != nil {
		return err
	}
	if q, err := parseAsked(text); err == nil {
		if back, err := parseAsked(q.encode()); err != nil || back != q {
			return fmt.Errorf("question %#v became %#v, error %w", q, back, err)
		}
	}
	if a, err := parseAnswered(text); err == nil {
		if back, err := parseAnswered(a.encode()); err != nil || back != a {
			return fmt.Errorf("answer %#v became %#v, error %w", a, back, err)
		}
		_, _ = a.result() // it ends
	}
	s, err := decodeSummary(entry{id: "7-0", fields: map[string]any{fieldSummary: text, fieldAfter: "3"}})
	if err != nil {
		return onlyDamaged("summary", err)
	}
	p := delivery.Publication{ContentType: s.ContentType, From: s.From, Until: s.Until}
	again, err := decodeSummary(entry{id: "7-0", fields: map[string]any{fieldSummary: encodeSummary(p, s.ID), fieldAfter: "3"}})
	if again.Bytes = s.Bytes; err != nil || again != s {
		return fmt.Errorf("summary %#v became %#v, error %w", s, again, err)
	}
	return nil
}

// EncodeNote makes the record of a notification.
func EncodeNote(p delivery.Publication, id subscription.ID, accepted time.Time) string {
	return encodeNote(p, id, accepted)
}

func entryAgain(note, name, body string) error {
	n, err := decodeEntry(name, entry{id: "7-0", fields: map[string]any{fieldNote: note, fieldAfter: "3", fieldBody: body}})
	if err != nil {
		return onlyDamaged("entry", err)
	}
	if string(n.Body) != body || n.Seq != 7 || n.After != 3 || n.Topic.Key() != name {
		return fmt.Errorf("entry %q is %#v", note, n)
	}
	back, _, err := decodeNote(encodeNote(n.Publication, n.ID, n.Accepted))
	if err != nil || back.Topic != n.Topic || back.ID != n.ID || !back.Accepted.Equal(n.Accepted) || !slices.Equal(back.Links, n.Links) {
		return fmt.Errorf("notification %#v became %#v, error %w", n, back, err)
	}
	_, err = decodeEntry(name, entry{id: note, fields: map[string]any{fieldNote: note, fieldAfter: body, fieldBody: note}})
	return onlyDamaged("entry of rubbish", err)
}

func stateOf(text, name, beside string) error {
	_ = instantOf(text)
	for i := range 6 {
		fields := []any{name, "5", "00000000-0000-4000-8000-000000000001", "", "", "1"}
		fields[i] = text
		if _, err := decodeState(name, fields); err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("state with %q: error %w", text, err)
		}
		if fields[i] = nil; i != 1 {
			fields[(i+1)%6] = beside
		}
		if _, err := decodeState(name, fields); err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("state without field %d: error %w", i, err)
		}
	}
	return nil
}

// SampleRecords are one record of each kind.
func SampleRecords() []string {
	return []string{
		string(encodeSubscription(subscription.Subscription{Topic: "topic", Callback: "callback", Secret: "secret", Start: 300})),
		string(encodeRequest(subscription.Request{Mode: "subscribe", Topic: "topic", Lease: 5})),
		string(encodeRequest(subscription.Request{Mode: "subscribe", Topic: "topic", Since: time.Unix(1, 2), Start: 300, VerifyToken: "token"})),
		encodePosition(delivery.Position{Settled: 7, Failures: 2, LastStatus: 503}),
		encodeGap(delivery.Gap{First: 1, Last: 2, Reason: delivery.GapTrimmed}),
		encodeNote(
			delivery.Publication{Topic: topic.Parse("topic"), ContentType: "text/plain", Links: []string{"<a>"}, Body: []byte("body")},
			subscription.ID{}, time.Unix(1, 2).UTC(),
		),
		string(encodeSource(source.Source{Prefixes: []string{"https://a.example/x"}, Created: time.Unix(1, 2)})),
		encodePosition(delivery.Position{Settled: 7, ReplayNext: 2, ReplayLast: 5}),
		encodeGap(delivery.Gap{First: 1, Last: 2, Reason: delivery.GapTrimmed, Replayed: time.Unix(1, 2)}),
		encodeSummary(delivery.Publication{ContentType: "text/plain", From: "1", Until: "2", Body: []byte("body")}, subscription.ID{}),
		asked{within: time.Second, text: "a question"}.encode(), answered{"process", isAnswer, "text"}.encode(),
		"300 topic", encodeList([]string{"", "a:b", "12:"}),
	}
}
