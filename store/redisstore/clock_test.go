package redisstore_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/store/redisstore"
)

// Clocks count as apart by what the way of question and answer does not explain.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 3, 29, 1, 59, 59, 0, time.UTC)
	answered := asked.Add(4 * time.Second)
	for _, c := range []struct {
		theirs time.Duration // after asked
		want   string
	}{
		{0, ""},
		{4 * time.Second, ""},
		{-10 * time.Second, ""},
		{14 * time.Second, ""},
		{-11 * time.Second, "about 10s ahead of"},
		{15 * time.Second, "about 10s behind"},
		{-time.Hour, "about 1h0m0s ahead of"},
		{4*time.Second + time.Hour, "about 1h0m0s behind"},
	} {
		got := strings.Join(redisstore.Apart(asked, answered, asked.Add(c.theirs)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("a server's time %s after the question: %q, want %q", c.theirs, got, c.want)
		}
	}
}

// A hub whose clock is not that of its Redis warns, until it is.
func TestReadyWarnsOfTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wrong := wrongClock(t, w.server.Addr(), -time.Minute)
	w.cfg.URL = strings.Replace(w.cfg.URL, w.server.Addr(), wrong, 1)
	db := w.open(t)
	wantWarnings(t, db, "this machine's clock is about 1m0s ahead of that of Redis")
}

// wrongClock passes everything on to a server and back, but for the answer to TIME.
func wrongClock(t *testing.T, server string, off time.Duration) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				return
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { shiftTimes(near, far, off); _ = near.Close() }()
		}
	}()
	return listener.Addr().String()
}

// shiftTimes copies answers line by line. One that is a list of two texts, the first of
// ten digits, is that to TIME: its first line begins with *2.
func shiftTimes(near io.Writer, far io.Reader, off time.Duration) {
	lines := bufio.NewReader(far)
	pair := 0 // lines since *2
	for {
		line, err := lines.ReadString('\n')
		if pair++; line == "*2\r\n" {
			pair = 0
		}
		if seconds, notNumber := strconv.ParseInt(strings.TrimSpace(line), 10, 64); pair == 2 && len(line) == 12 && notNumber == nil {
			line = strconv.FormatInt(seconds+int64(off/time.Second), 10) + "\r\n"
		}
		if _, failed := io.WriteString(near, line); err != nil || failed != nil {
			return
		}
	}
}
