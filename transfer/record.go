package transfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// record is what a line after the header holds.
type record interface{ isRecord() }

type (
	sourceRecord       struct{ source.Source }
	topicRecord        struct{ delivery.TopicState }
	notificationRecord struct{ *delivery.Notification }
	requestRecord      struct{ subscription.Request }
	pingRecord         struct{ topic topic.Address }
	memberRecord       struct{ delivery.Member }
	gapRecord          struct{ delivery.Gap }
)

func (sourceRecord) isRecord()       {}
func (topicRecord) isRecord()        {}
func (notificationRecord) isRecord() {}
func (requestRecord) isRecord()      {}
func (pingRecord) isRecord()         {}
func (memberRecord) isRecord()       {}
func (gapRecord) isRecord()          {}
func (endLine) isRecord()            {}

// parse reads one line after the header.
func parse(line []byte, maxBody int64) (record, error) {
	k, err := kindOf(line)
	if err != nil {
		return nil, err
	}
	switch k {
	case kindSource:
		return decode(line, sourceLine.record)
	case kindTopic:
		return decode(line, topicLine.record)
	case kindNotification:
		return decode(line, func(l notificationLine) (record, error) { return l.record(maxBody) })
	case kindRequest:
		return decode(line, requestLine.record)
	case kindPing:
		return decode(line, pingLine.record)
	case kindSubscription:
		return decode(line, subscriptionLine.record)
	case kindGap:
		return decode(line, gapLine.record)
	case kindEnd:
		return decode(line, func(l endLine) (record, error) { return l, nil })
	}
	return nil, fmt.Errorf("unknown kind %q", k)
}

func decode[L any](line []byte, check func(L) (record, error)) (record, error) {
	var l L
	if err := strict(line, &l); err != nil {
		return nil, err
	}
	return check(l)
}

func (l sourceLine) record() (record, error) {
	s := source.Source{
		Name: string(l.Name), TokenHash: source.Hash(l.Token), Created: l.Created, Issued: l.Issued,
	}
	for _, p := range l.Prefixes {
		s.Prefixes = append(s.Prefixes, string(p))
	}
	return sourceRecord{s}, s.Validate()
}

func (l topicLine) record() (record, error) {
	err := errors.Join(
		must(l.Topic != "", "topic is empty"),
		must(topic.Key(string(l.Topic)) == string(l.Topic), "topic is not in the form to compare by"+older),
		within("head", l.Head, 1),
		must(l.LastID != uuid.Nil, "last_id is missing"),
	)
	return topicRecord{delivery.TopicState{
		Topic: string(l.Topic), Head: l.Head,
		Last: delivery.Last{ID: l.LastID, Until: string(l.Until), Digest: l.Digest},
	}}, err
}

func (l notificationLine) record(maxBody int64) (record, error) {
	n := &delivery.Notification{
		Publication: delivery.Publication{
			Topic: topic.Parse(string(l.Topic)), ContentType: string(l.ContentType),
			From: string(l.From), Until: string(l.Until), Body: l.Body,
		},
		ID: l.ID, Seq: l.Seq, After: l.After, Accepted: l.Accepted,
	}
	for _, link := range l.Links {
		n.Links = append(n.Links, string(link))
	}
	return notificationRecord{n}, errors.Join(
		must(l.Topic != "", "topic is empty"),
		within("seq", l.Seq, 1),
		must(l.After < l.Seq, "after is not before seq"),
		must(l.ID != uuid.Nil, "id is missing"),
		must(l.Body != nil, "body is missing"),
		must(int64(len(l.Body)) <= maxBody, "body is too long"),
		given("accepted", l.Accepted),
	)
}

func (l requestLine) record() (record, error) {
	r := subscription.Request{
		ID: l.ID, Token: l.Token, Mode: l.Mode, Topic: string(l.Topic), Callback: string(l.Callback),
		Secret: subscription.Secret(l.Secret), Lease: time.Duration(l.Lease), Received: l.Received,
		VerifyToken: subscription.Secret(l.Verify), Since: l.Since, Start: uint64(l.Start),
	}
	return requestRecord{r}, errors.Join(
		must(
			l.Mode == subscription.ModeSubscribe || l.Mode == subscription.ModeUnsubscribe,
			"mode is neither subscribe nor unsubscribe",
		),
		must(l.Token != uuid.Nil, "token is missing"),
		identified(l.ID, l.Topic, l.Callback),
		given("received", l.Received),
		within("start", l.Start, 0),
		must(l.Start == 0 || !l.Since.IsZero(), "start is given without since"),
	)
}

func (l pingLine) record() (record, error) {
	return pingRecord{topic.Parse(string(l.Topic))}, must(l.Topic != "", "topic is empty")
}

func (l subscriptionLine) record() (record, error) {
	m := delivery.Member{
		Subscription: subscription.Subscription{
			ID: l.ID, Topic: string(l.Topic), Callback: string(l.Callback), Secret: subscription.Secret(l.Secret),
			Start: uint64(l.Start), Lease: time.Duration(l.Lease), Expires: l.Expires, Created: l.Created,
		},
		Position: delivery.Position{
			Settled: l.Settled, Failures: l.Failures, NextAttempt: l.NextAttempt,
			LastFailure: delivery.Class(l.LastFailure), LastStatus: l.LastStatus,
			ReplayNext: l.ReplayNext, ReplayLast: l.ReplayLast,
		},
	}
	return memberRecord{m}, errors.Join(
		identified(l.ID, l.Topic, l.Callback),
		within("start", l.Start, 0),
		within("settled", l.Settled, l.Start),
		given("expires", l.Expires),
		replay(l.ReplayNext, l.ReplayLast),
	)
}

func (l gapLine) record() (record, error) {
	g := delivery.Gap{
		Subscription: l.Subscription, First: l.First, Last: l.Last,
		Reason: delivery.GapReason(l.Reason), Failure: delivery.Class(l.Failure), At: l.At,
		Replayed: l.Replayed,
	}
	return gapRecord{g}, errors.Join(
		within("first", l.First, 1),
		within("last", l.Last, l.First),
		must(l.Reason != 0, "reason is missing"),
		given("at", l.At),
	)
}

// older says what to do with a stream whose keys are of an earlier form.
const older = " (an earlier version made the export, or it was changed: export it again with a version that compares topics as this one does)"

func must(ok bool, message string) error {
	if ok {
		return nil
	}
	return errors.New(message)
}

func within(field string, n, least delivery.Seq) error {
	if n < least || n > delivery.MaxSeq {
		return fmt.Errorf("%s is %d; it must be from %d to %d", field, n, least, delivery.MaxSeq)
	}
	return nil
}

// replay checks a stretch that is delivered once more, if there is one.
func replay(next, last delivery.Seq) error {
	if next == 0 && last == 0 {
		return nil
	}
	return errors.Join(within("replay_next", next, 1), within("replay_last", last, next))
}

func given(field string, t time.Time) error { return must(!t.IsZero(), field+" is missing") }

// identified checks the names of a subscription: the ID follows from the others, and
// only by that would it be found again.
func identified(id uuid.UUID, topicURL, callback text) error {
	return must(
		id == subscription.NewID(string(topicURL), string(callback)),
		"id is not that of the topic and the callback"+older,
	)
}
