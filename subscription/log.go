package subscription

import (
	"log/slog"

	"carillon/topic"
)

// LogValue gives the part of a subscription that a log may show. The secret does not appear, and of
// the callback only its host. With a callback's address a stranger can forge deliveries to it;
// subscribers are advised to make it impossible to guess (WebSub §5.1, §8.2). The ID distinguishes
// callbacks of one host.
func (s Subscription) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", s.ID.String()),
		slog.String("topic", s.Topic),
		slog.String("callback_host", topic.Authority(s.Callback)),
		slog.String("lease", s.Lease.String()),
		slog.Time("expires", s.Expires),
	)
}

// LogValue gives what a log may show of a request; see Subscription.LogValue.
func (r Request) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", r.ID.String()),
		slog.String("mode", string(r.Mode)),
		slog.String("topic", r.Topic),
		slog.String("callback_host", topic.Authority(r.Callback)),
		slog.String("lease", r.Lease.String()),
	)
}
