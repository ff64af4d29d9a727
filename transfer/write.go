package transfer

import (
	"crypto/sha256"
	"encoding/json"
	"hash"
	"io"
	"time"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
)

// writer writes lines, and counts and sums up what it wrote.
type writer struct {
	out      io.Writer
	encoder  *json.Encoder
	sum      hash.Hash
	progress Progress
	told     func(Progress)
}

func newWriter(out io.Writer, told func(Progress)) *writer {
	w := &writer{out: out, sum: sha256.New(), told: told}
	w.encoder = plainEncoder(w)
	return w
}

// Write takes a line from the encoder.
func (w *writer) Write(line []byte) (int, error) {
	n, err := w.out.Write(line)
	w.sum.Write(line[:n])
	w.progress.Bytes += int64(n)
	return n, err
}

// record writes a line that counts.
func (w *writer) record(line any, count *int) error {
	if err := w.encoder.Encode(line); err != nil {
		return err
	}
	*count++
	if w.told != nil {
		w.told(w.progress)
	}
	return nil
}

func (w *writer) header(at time.Time, hub, engine string) error {
	return w.encoder.Encode(headerLine{kindHeader, Format, Version, at.UTC(), hub, engine})
}

func (w *writer) source(s source.Source) error {
	line := sourceLine{
		Kind: kindSource, Name: text(s.Name), Token: digest(s.TokenHash),
		Created: s.Created.UTC(), Issued: s.Issued.UTC(),
	}
	for _, p := range s.Prefixes {
		line.Prefixes = append(line.Prefixes, text(p))
	}
	return w.record(line, &w.progress.Sources)
}

func (w *writer) topic(t delivery.TopicState) error {
	return w.record(topicLine{
		Kind: kindTopic, Topic: text(t.Topic), Head: t.Head,
		LastID: t.Last.ID, Until: text(t.Last.Until), Digest: digest(t.Last.Digest),
	}, &w.progress.Topics)
}

func (w *writer) notification(n *delivery.Notification) error {
	line := notificationLine{
		Kind: kindNotification, Topic: text(n.Topic.String()), Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted.UTC(),
		ContentType: text(n.ContentType), From: text(n.From), Until: text(n.Until), Body: n.Body,
	}
	for _, link := range n.Links {
		line.Links = append(line.Links, text(link))
	}
	if line.Body == nil {
		line.Body = []byte{} // "", as for any other body of no bytes
	}
	return w.record(line, &w.progress.Notifications)
}

func (w *writer) request(r subscription.Request) error {
	return w.record(requestLine{
		Kind: kindRequest, ID: r.ID, Token: r.Token, Mode: r.Mode, Topic: text(r.Topic), Callback: text(r.Callback),
		Secret: text(r.Secret), Lease: duration(r.Lease), Received: r.Received.UTC(),
		Verify: text(r.VerifyToken), Since: utcOrZero(r.Since), Start: delivery.Seq(r.Start),
	}, &w.progress.Requests)
}

func (w *writer) ping(topic string) error {
	return w.record(pingLine{kindPing, text(topic)}, &w.progress.Pings)
}

func (w *writer) member(m delivery.Member) error {
	return w.record(subscriptionLine{
		Kind: kindSubscription, ID: m.ID, Topic: text(m.Topic), Callback: text(m.Callback), Secret: text(m.Secret),
		Start: delivery.Seq(m.Start), Lease: duration(m.Lease), Expires: m.Expires.UTC(), Created: m.Created.UTC(),
		Settled: m.Settled, Failures: m.Failures, NextAttempt: utcOrZero(m.NextAttempt),
		LastFailure: failureClass(m.LastFailure), LastStatus: m.LastStatus,
		ReplayNext: m.ReplayNext, ReplayLast: m.ReplayLast,
	}, &w.progress.Subscriptions)
}

func utcOrZero(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

func (w *writer) gap(g delivery.Gap) error {
	return w.record(gapLine{
		Kind: kindGap, Subscription: g.Subscription, First: g.First, Last: g.Last,
		Reason: gapReason(g.Reason), Failure: failureClass(g.Failure), At: g.At.UTC(),
		Replayed: utcOrZero(g.Replayed),
	}, &w.progress.Gaps)
}

func (w *writer) end() error {
	line := endLine{Kind: kindEnd, Counts: w.progress.Counts}
	w.sum.Sum(line.SHA256[:0])
	return w.encoder.Encode(line)
}
