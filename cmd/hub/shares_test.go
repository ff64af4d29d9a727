package main

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"carillon/delivery"
	"carillon/hub"
	"carillon/store/pebblestore"
)

const mebi = 1 << 20

func TestSharesWithin(t *testing.T) {
	full := shares{
		sending: delivery.DefaultMaxBytes, latest: delivery.DefaultCacheBytes, taking: hub.DefaultMaxBodiesBytes,
		fetching: 400 * mebi, blocks: pebblestore.DefaultCacheBytes, table: pebblestore.DefaultMemTableBytes,
	}
	for _, tt := range []struct {
		limit, maxBody int64
		want           shares
		told           string
	}{
		{math.MaxInt64, 50 * mebi, full, ""},
		{4096 * mebi, 50 * mebi, full, ""},
		{1024 * mebi, 50 * mebi, shares{128 * mebi, 32 * mebi, 128 * mebi, 128 * mebi, 32 * mebi, 8 * mebi}, "less room"},
		{256 * mebi, 50 * mebi, shares{32 * mebi, 8 * mebi, 50 * mebi, 50 * mebi, 8 * mebi, leastTable}, "GOMEMLIMIT is small"},
		{256 * mebi, 5 * mebi, shares{32 * mebi, 8 * mebi, 32 * mebi, 32 * mebi, 8 * mebi, leastTable}, "less room"},
	} {
		got := sharesWithin(tt.limit, tt.maxBody)
		if got != tt.want {
			t.Errorf("%d MiB, bodies of %d MiB: got %+v, want %+v", tt.limit/mebi, tt.maxBody/mebi, got, tt.want)
		}
		var log bytes.Buffer
		got.tell(slog.New(slog.NewTextHandler(&log, nil)), tt.limit, tt.maxBody)
		if (log.Len() > 0) != (tt.told != "") || !strings.Contains(log.String(), tt.told) {
			t.Errorf("%d MiB, bodies of %d MiB: the log says %q, want %q", tt.limit/mebi, tt.maxBody/mebi, log.String(), tt.told)
		}
	}
}

// However little the limit is, what is shared out is not more than it, as long as a body
// of the largest kind is not more than its part.
func TestSharesFit(t *testing.T) {
	for limit := int64(256 * mebi); limit <= 1<<40; limit += limit / 7 {
		s := sharesWithin(limit, limit/takingPart)
		if all := s.sending + s.latest + bodyCopies*(s.taking+s.fetching) + s.blocks + 4*s.table; all > limit {
			t.Errorf("%d MiB: %+v are %d MiB", limit/mebi, s, all/mebi)
		}
	}
}
