package transfer

import (
	"context"
	"errors"
	"fmt"

	"carillon/delivery"
	"carillon/source"
	"carillon/topic"
)

// ErrNotEmpty: the target keeps something already, and Merge was not asked for.
var ErrNotEmpty = errors.New("the target is not empty")

// Bounds of what is put in one call.
const (
	batchRecords = 512
	batchBytes   = 4 << 20 // of bodies; one that is larger goes alone
)

// importer puts records in batches. Records come after those that they need: a log's notifications
// before its state, a subscription before its gaps, and the logs before everything else.
type importer struct {
	to    Engine
	merge *merger // nil: the target is empty

	notifications []*delivery.Notification
	bytes         int // of their bodies
	topics        []delivery.TopicState
	open          bool // the last topic's notifications are still coming
	pings         []topic.Address
	members       []delivery.Member
	gaps          []delivery.Gap
}

func newImporter(to Engine, merge bool) *importer {
	i := &importer{to: to}
	if merge {
		i.merge = &merger{to: to}
	}
	return i
}

func (i *importer) begin(ctx context.Context) error {
	if i.merge != nil {
		return i.merge.begin(ctx)
	}
	empty, err := i.to.Target.Empty(ctx)
	if err == nil && !empty {
		err = ErrNotEmpty
	}
	return err
}

func (i *importer) take(ctx context.Context, r record) error {
	switch r := r.(type) {
	case sourceRecord:
		return i.source(ctx, r.Source)
	case topicRecord:
		return i.topic(ctx, r.TopicState)
	case notificationRecord:
		return i.notification(ctx, r.Notification)
	}
	if err := i.flushLogs(ctx); err != nil {
		return err
	}
	switch r := r.(type) {
	case requestRecord:
		return i.to.Subscriptions.Submit(ctx, r.Request)
	case pingRecord:
		i.pings = append(i.pings, r.topic)
		if len(i.pings) < batchRecords {
			return nil
		}
		return i.flushPings(ctx)
	case memberRecord:
		return i.member(ctx, r.Member)
	case gapRecord:
		i.gaps = append(i.gaps, r.Gap)
		if len(i.gaps) < batchRecords {
			return nil
		}
		return i.flushMembers(ctx)
	}
	return fmt.Errorf("a record of the type %T", r)
}

// source puts a Source in the place of the one of its name.
func (i *importer) source(ctx context.Context, s source.Source) error {
	if i.to.Sources == nil {
		return errors.New("the target keeps no Sources")
	}
	err := i.to.Sources.Add(ctx, s)
	if errors.Is(err, source.ErrExists) {
		err = i.to.Sources.Replace(ctx, s)
	}
	return err
}

func (i *importer) topic(ctx context.Context, t delivery.TopicState) error {
	if i.open && i.merge != nil {
		if err := i.merge.endTopic(); err != nil {
			return err
		}
	}
	i.open = false
	if len(i.topics) >= batchRecords {
		if err := i.flushLogs(ctx); err != nil {
			return err
		}
	}
	if i.merge != nil {
		if known, err := i.merge.topic(ctx, t); known || err != nil {
			return err
		}
	}
	t.First = t.Head + 1 // until there is a notification
	i.topics, i.open = append(i.topics, t), true
	return nil
}

func (i *importer) notification(ctx context.Context, n *delivery.Notification) error {
	if i.merge != nil {
		if known, err := i.merge.notification(n); known || err != nil {
			return err
		}
	}
	state := &i.topics[len(i.topics)-1]
	state.First = min(state.First, n.Seq)
	if len(i.notifications) > 0 && (len(i.notifications) >= batchRecords || i.bytes+len(n.Body) > batchBytes) {
		if err := i.flushNotifications(ctx); err != nil {
			return err
		}
	}
	i.notifications = append(i.notifications, n)
	i.bytes += len(n.Body)
	return nil
}

func (i *importer) flushNotifications(ctx context.Context) error {
	if len(i.notifications) == 0 {
		return nil
	}
	err := i.to.Target.PutNotifications(ctx, i.notifications)
	clear(i.notifications) // lets go of the bodies
	i.notifications, i.bytes = i.notifications[:0], 0
	return err
}

// flushLogs puts everything that is known of logs which are complete.
func (i *importer) flushLogs(ctx context.Context) error {
	if i.open && i.merge != nil {
		if err := i.merge.endTopic(); err != nil {
			return err
		}
	}
	i.open = false
	if err := i.flushNotifications(ctx); err != nil || len(i.topics) == 0 {
		return err
	}
	err := i.to.Target.PutTopics(ctx, i.topics)
	i.topics = i.topics[:0]
	return err
}

func (i *importer) flushPings(ctx context.Context) error {
	if len(i.pings) == 0 {
		return nil
	}
	_, err := i.to.Pings.Ping(ctx, i.pings)
	i.pings = i.pings[:0]
	return err
}

func (i *importer) member(ctx context.Context, m delivery.Member) error {
	if err := i.flushPings(ctx); err != nil {
		return err
	}
	if len(i.members) >= batchRecords {
		if err := i.flushMembers(ctx); err != nil {
			return err
		}
	}
	if i.merge != nil {
		if err := i.merge.member(ctx, &m); err != nil {
			return err
		}
	}
	i.members = append(i.members, m)
	return nil
}

// flushMembers puts subscriptions, then gaps: those that are still to come may
// belong to the last subscription put.
func (i *importer) flushMembers(ctx context.Context) error {
	if len(i.members) > 0 {
		if err := i.to.Target.PutMembers(ctx, i.members); err != nil {
			return err
		}
		i.members = i.members[:0]
	}
	if len(i.gaps) == 0 {
		return nil
	}
	err := i.to.Target.PutGaps(ctx, i.gaps)
	i.gaps = i.gaps[:0]
	return err
}

func (i *importer) end(ctx context.Context) error {
	for _, flush := range []func(context.Context) error{i.flushLogs, i.flushPings, i.flushMembers} {
		if err := flush(ctx); err != nil {
			return err
		}
	}
	return nil
}
