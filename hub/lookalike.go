package hub

import (
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/payload"
	"carillon/topic"
)

// lookalikes reports publications that look like ResourceSync notifications and are not. They are
// relayed as every other content (WebSub §7), but their Source most likely meant something else. Its
// methods may be called from any goroutine.
type lookalikes struct {
	notices *notices
	counts  *prometheus.CounterVec
	logger  *slog.Logger
}

// note counts one that was published to the topic, and logs it.
func (l *lookalikes) note(at topic.Address, miss payload.Miss) {
	l.counts.WithLabelValues(string(miss.Kind)).Inc()
	if tell, untold := l.notices.tell(at); tell {
		l.logger.Info(
			"what looks like a ResourceSync notification was relayed as plain content",
			"topic", at.String(), "reason", miss.Why, "untold", untold,
		)
	}
}

// warning is the header X-Hub-Warning of the answer to one: a line of ASCII.
func warning(miss payload.Miss) string {
	why := strings.Map(func(r rune) rune {
		if r < ' ' || r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, strings.ReplaceAll(miss.Why, "§", ""))
	return "relayed as plain content and not checked: it looks like a ResourceSync notification, but " + why
}
