package house

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestPartsOf(t *testing.T) {
	t.Parallel()
	full := outgoing{inFlight: 512, slow: 2048, verifying: 256, slowVerifying: 1024, fetching: 8}
	out := func(conns int, o outgoing) outgoing { o.conns = conns; return o }
	some := func(inFlight, slow, verifying, slowVerifying, fetching int) outgoing {
		return outgoing{inFlight: inFlight, slow: slow, verifying: verifying, slowVerifying: slowVerifying, fetching: fetching}
	}
	for files, want := range map[int]parts{
		1 << 30: {16384, 256, 512, 768, out(1<<30-17_920, full)},
		1 << 20: {16384, 256, 512, 768, out(1_030_656, full)},
		65536:   {16384, 256, 512, 768, out(47_616, full)},
		20000:   {7488, 256, 512, 768, out(10_976, some(512, 2048, 256, 343, 8))},
		16384:   {6144, 256, 512, 768, out(8704, some(512, 2048, 256, 272, 8))},
		4096:    {1536, 128, 256, 256, out(1920, some(240, 480, 60, 60, 8))},
		1024:    {384, 32, 64, 64, out(480, some(60, 120, 15, 15, 8))},
		256:     {96, 8, 16, 16, out(120, some(15, 30, 3, 3, 3))},
		64:      {24, 8, 4, 16, out(12, some(1, 3, 1, 1, 1))},
	} {
		got := partsOf(files)
		if got != want {
			t.Errorf("%d files: got %+v, want %+v", files, got, want)
		}
		var log bytes.Buffer
		got.logLimit(slog.New(slog.NewTextHandler(&log, nil)), files)
		if told := strings.Contains(log.String(), "may open few files"); told != (files < 16384) {
			t.Errorf("%d files: the log says %q", files, log.String())
		}
	}
}

// However many files there are, the parts are no more than them, and connections for all that
// is under way are among those that go out.
func TestPartsFit(t *testing.T) {
	t.Parallel()
	for files := leastFiles; files <= 1<<30; files += 1 + files/50 {
		p := partsOf(files)
		if all := p.public + p.operator + p.questions + p.other + p.conns; all > files {
			t.Errorf("%d files: %+v are %d", files, p, all)
		}
		if use := p.inFlight + p.slow + p.verifying + p.slowVerifying + p.fetching; use > p.conns {
			t.Errorf("%d files: %d under way by %d connections", files, use, p.conns)
		}
		if p.inFlight < 1 || p.slow < 1 || p.questions < 1 || p.verifying < 1 || p.slowVerifying < 1 || p.fetching < 1 {
			t.Errorf("%d files: %+v has a part of nothing", files, p)
		}
	}
}

// The rest is for connections that go out: there is no other bound on them.
func TestConnectionsByFiles(t *testing.T) {
	t.Parallel()
	for files, least := range map[int]int{
		256: 115, 1024: 460, 20_000: 10_900, 65_536: 47_000, 1_000_000: 980_000,
	} {
		if got := partsOf(files).conns; got < least {
			t.Errorf("%d files: %d connections go out, want %d", files, got, least)
		}
	}
}

// Connections are kept for longer where there are many.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	for files, want := range map[int]time.Duration{64: 90 * time.Second, 4096: 90 * time.Second, 16384: 10 * time.Minute, 1 << 30: 10 * time.Minute} {
		if got := partsOf(files).idleTimeout(); got != want {
			t.Errorf("%d files: idle connections are kept for %s, want %s", files, got, want)
		}
	}
}
