package subscription

import (
	"log/slog"

	"carillon/topic"
)

// LogValue gives what a log may show of a subscription. The secret does not
// appear, and of the callback only its host: who knows a callback's address can
// forge deliveries to it, so that subscribers are advised to make it impossible
// to guess (WebSub §5.1, §8.2), and a log is no place for it. The ID tells
// callbacks of one host apart.
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
