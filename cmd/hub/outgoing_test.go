package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestOutgoingWithin(t *testing.T) {
	full := outgoing{inFlight: 512, slow: 2048, idle: 2048, questions: 512, asking: 512, verifying: 256, slowVerifying: 1024}
	half := full
	half.slowVerifying = 256
	for files, want := range map[int]outgoing{
		1 << 30: full,
		1 << 20: full,
		65536:   full,
		16384:   half,
		16383:   {inFlight: 512, slow: 2040, idle: 2040, questions: 512, asking: 510, verifying: 255, slowVerifying: 255},
		4096:    {inFlight: 256, slow: 512, idle: 512, questions: 256, asking: 128, verifying: 64, slowVerifying: 64},
		1024:    {inFlight: 64, slow: 128, idle: 128, questions: 64, asking: 32, verifying: 16, slowVerifying: 16},
		0:       {inFlight: 1, slow: 1, idle: 1, questions: 1, asking: 1, verifying: 1, slowVerifying: 1},
	} {
		got := outgoingWithin(files)
		if got != want {
			t.Errorf("%d files: got %+v, want %+v", files, got, want)
		}
		var log bytes.Buffer
		got.tell(slog.New(slog.NewTextHandler(&log, nil)), files)
		if told := strings.Contains(log.String(), "may open few files"); told != (files < 16384) {
			t.Errorf("%d files: the log says %q", files, log.String())
		}
	}
}

// What goes out and the public listener's half leave files to the store, which
// holds 256 tables open.
func TestOutgoingLeavesFiles(t *testing.T) {
	for files := 4096; files <= 1<<20; files += 1024 {
		o := outgoingWithin(files)
		out := o.inFlight + o.slow + o.idle + o.questions + o.asking + o.verifying + o.slowVerifying
		if left := files - files/2 - out; left < 256 {
			t.Errorf("%d files: %d go out, %d are left", files, out, left)
		}
	}
}
