package house

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"carillon/delivery/dispatch"
	"carillon/hub"
	"carillon/store/pebblestore"
)

const mebi = 1 << 20

func TestSharesWithin(t *testing.T) {
	t.Parallel()
	full := budgets{
		sending: dispatch.DefaultMaxBytes, latest: dispatch.DefaultCacheBytes, taking: hub.DefaultMaxBodiesBytes,
		fetching: 400 * mebi, blocks: pebblestore.DefaultCacheBytes, table: pebblestore.DefaultMemTableBytes,
		idle: 192 * mebi, sessions: 64 * mebi,
	}
	const kept = 256 * mebi
	for _, tt := range []struct {
		limit, maxBody int64
		want           budgets
		told           string
	}{
		{math.MaxInt64, 50 * mebi, full, ""},
		{4096 * mebi, 50 * mebi, full, ""},
		{1024 * mebi, 48 * mebi, budgets{128 * mebi, 32 * mebi, 128 * mebi, 107374182, 32 * mebi, 8 * mebi, 60397979, 20132659}, "less room"},
		{256 * mebi, 50 * mebi, budgets{32 * mebi, 8 * mebi, 50 * mebi, 50 * mebi, 8 * mebi, leastTable, 3 * mebi, mebi}, "GOMEMLIMIT is small"},
		{256 * mebi, 5 * mebi, budgets{32 * mebi, 8 * mebi, 32 * mebi, 26843545, 8 * mebi, leastTable, 15099496, 5033165}, "less room"},
	} {
		got := budgetsWithin(tt.limit, tt.maxBody, kept)
		if got != tt.want {
			t.Errorf("%d MiB, bodies of %d MiB: got %+v, want %+v", tt.limit/mebi, tt.maxBody/mebi, got, tt.want)
		}
		var log bytes.Buffer
		got.logLimit(slog.New(slog.NewTextHandler(&log, nil)), tt.limit, tt.maxBody, kept)
		if (log.Len() > 0) != (tt.told != "") || !strings.Contains(log.String(), tt.told) {
			t.Errorf("%d MiB, bodies of %d MiB: the log says %q, want %q", tt.limit/mebi, tt.maxBody/mebi, log.String(), tt.told)
		}
	}
}

// However little the limit is, what is shared out is not more than it, as long as a body
// of the largest kind is not more than its part; and connections have something of it.
func TestSharesFit(t *testing.T) {
	t.Parallel()
	for limit := int64(256 * mebi); limit <= 1<<40; limit += limit / 7 {
		for _, kept := range []int64{minConnectionBytes, 256 * mebi, math.MaxInt64} {
			s := budgetsWithin(limit, limit/takingPart, kept)
			if all := s.all(); all > limit {
				t.Errorf("%d MiB: %+v are %d MiB", limit/mebi, s, all/mebi)
			}
			if got := s.idle + s.sessions; got < min(kept, limit/leastKeptPart) || s.sessions < 1 || got > kept {
				t.Errorf("%d MiB: connections have %d bytes of %d", limit/mebi, got, kept)
			}
		}
	}
}

// The more memory there is, the more of it is for connections that are kept.
func TestSharesOfConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ limit, maxBody, kept, least int64 }{
		{400 * mebi, 50 * mebi, 256 * mebi, 6 * mebi},
		{1024 * mebi, 50 * mebi, 256 * mebi, 64 * mebi},
		{1500 * mebi, 50 * mebi, 256 * mebi, 100 * mebi},
		{2048 * mebi, 50 * mebi, 256 * mebi, 128 * mebi},
		{4096 * mebi, 50 * mebi, 256 * mebi, 256 * mebi},
		{4096 * mebi, 50 * mebi, 4096 * mebi, 512 * mebi},
		{math.MaxInt64, 50 * mebi, 4096 * mebi, 4096 * mebi},
	} {
		if s := budgetsWithin(tt.limit, tt.maxBody, tt.kept); s.idle+s.sessions < tt.least {
			t.Errorf(
				"%d MiB, --connection-bytes %d MiB: connections have %d MiB, want %d",
				tt.limit/mebi, tt.kept/mebi, (s.idle+s.sessions)/mebi, tt.least/mebi,
			)
		}
	}
}
