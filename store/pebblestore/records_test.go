package pebblestore_test

import (
	"testing"
	"time"

	"carillon/delivery"
	"carillon/store/pebblestore"
)

// TestRecordsOfReplays: a record without a replay is written as in layout 3, byte for byte.
func TestRecordsOfReplays(t *testing.T) {
	at := time.Unix(1_700_000_000, 5)
	p := delivery.Position{Settled: 300, Failures: 2, NextAttempt: at, LastFailure: delivery.ClassTimeout, LastStatus: 503}
	const before = "\x01\xac\x02\x02\x01\x80\xc4\x9f\xd5\x0c\x05\x06\xf7\x03"
	if got := string(pebblestore.EncodePosition(p)); got != before {
		t.Errorf("a position is %q, want %q", got, before)
	}
	p.ReplayNext, p.ReplayLast = 7, 300
	if got := string(pebblestore.EncodePosition(p)); got != "\x02"+before[1:]+"\x07\xac\x02" {
		t.Errorf("a position with a replay is %q", got)
	}
	g := delivery.Gap{First: 4, Last: 9, Reason: delivery.GapGivenUp, Failure: delivery.ClassTimeout, At: at}
	const gap = "\x01\x09\x01\x06\x01\x80\xc4\x9f\xd5\x0c\x05"
	if got := string(pebblestore.EncodeGap(g)); got != gap {
		t.Errorf("a gap is %q, want %q", got, gap)
	}
	g.Replayed = at
	if got := string(pebblestore.EncodeGap(g)); got != "\x02"+gap[1:]+"\x01\x80\xc4\x9f\xd5\x0c\x05" {
		t.Errorf("a gap that was replayed is %q", got)
	}
}
