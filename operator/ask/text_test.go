package ask_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/operator"
	"carillon/operator/ask"
)

// Foreign text does nothing to a terminal, and columns are aligned.
func TestTablesAreLegible(t *testing.T) {
	var out bytes.Buffer
	tab := ask.Table(&out)
	ask.Row(tab, "A", "B")
	ask.Row(tab, "\x1b[31mred\x07", "x\ty")
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "A          B\n·[31mred·  x·y\n"; out.String() != want {
		t.Errorf("%q; want %q", &out, want)
	}
	if got := ask.Short("https://callback.example.org/", 11); got != "https….org/" {
		t.Errorf("short: %q", got)
	}
	for n, want := range map[int64]string{999: "999 B", 1500: "1.5 kB", 999_999: "1.0 MB", 52_428_800: "52.4 MB"} {
		if got := ask.Size(n); got != want {
			t.Errorf("%d bytes: %q; want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{.25: "250ms", 4.25: "4.2s", 59: "59s", 61: "1m01s", 7260: "2h01m", 90000: "1d01h"} {
		if got := ask.Span(s); got != want {
			t.Errorf("%v seconds: %q; want %q", s, got, want)
		}
	}
}

// A word that is to be copied to a shell is the same word there, and nothing is run of it.
func TestQuotedForAShell(t *testing.T) {
	for _, word := range []string{
		"plain", "https://a.test/$(echo run)", "https://a.test/${HOME}", "https://a.test/`echo run`", "it's", "''", `a\b`, "a!b", "a b", "~", "a;b&c|d", `"`, "",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+ask.Quoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%s is %q in a shell (%v); want %q", ask.Quoted(word), out, err, word)
		}
	}
	if got := ask.Quoted("a\x1b[31m\nb"); got != "'a·[31m·b'" {
		t.Errorf("for a terminal: %q", got)
	}
}

// An attempt under way is no attempt that is late, and what is not remembered is not what was
// not tried.
func TestAttemptsForPeople(t *testing.T) {
	past := time.Now().Add(-time.Minute)
	for state, want := range map[string]string{operator.StateInFlight: "now", operator.StateFailing: "in 0ms"} {
		var out bytes.Buffer
		n := operator.NotificationDetail{
			Missing: []operator.Missing{{Subscription: operator.Subscription{State: state, NextAttempt: past, CallbackHost: "host"}}},
		}
		if err := ask.PrintNotification(&out, n); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "  "+want+"  ") {
			t.Errorf("%s: %q; want %s", state, last, want)
		}
	}
	said := func(s operator.SubscriptionDetail) string {
		t.Helper()
		var out bytes.Buffer
		if err := ask.PrintSubscription(&out, s, true); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if out := said(
		operator.SubscriptionDetail{Subscription: operator.Subscription{State: operator.StateInFlight, NextAttempt: past}},
	); !regexp.MustCompile(`(?m)^next attempt +now$`).MatchString(out) {
		t.Errorf("an attempt under way:\n%s", out)
	}
	const holes = "Deliveries are remembered for less long than failures"
	for line, want := range map[string]bool{"": false, "3": false, "3 2 2 1": false, "5 3": true, "9 2 2": true} {
		var s operator.SubscriptionDetail
		for _, seq := range strings.Fields(line) {
			n, _ := strconv.Atoi(seq)
			s.Attempts = append(s.Attempts, operator.Attempt{At: past, Seq: delivery.Seq(n)})
		}
		if out := said(s); strings.Contains(out, holes) != want {
			t.Errorf("attempts at %q: holes are to be told: %t\n%s", line, want, out)
		}
	}
	if got := ask.Moment(past); !strings.HasSuffix(got, "Z, 1m00s ago") {
		t.Errorf("a time is %q", got)
	}
}

// A loss is printed once, with its reason.
func TestCoverageIsToldOnce(t *testing.T) {
	const silent, left = "process b did not answer: no answer in time", "no process answered for 32 of the 64 shards"
	for want, c := range map[string]operator.Coverage{
		"": {},
		"hub: this is not all: 32 of 64 shards did not answer\n": {MissingShards: 32},
		"hub: this is not all: " + silent + "; " + left + "\n":   {MissingShards: 32, Trouble: []string{silent, left}},
		"hub: " + silent + "\nhub: process c is left out\n":      {Trouble: []string{silent, "process c is left out"}},
	} {
		var out bytes.Buffer
		if ask.TellCoverage(&out, c); out.String() != want {
			t.Errorf("%+v: %q; want %q", c, &out, want)
		}
	}
}

// Nor does it with --json, where it stays what it was.
func TestJSONIsLegible(t *testing.T) {
	const evil = "a\u009b31m\u202e\x7f\U000e0001é 漢"
	text, err := json.Marshal(map[string]string{"type": evil})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := ask.PrintJSON(&out, text); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["type"] != evil {
		t.Errorf("%v: %q", err, back)
	}
	if said := out.String(); strings.ContainsAny(said, "\u009b\u202e\x7f\U000e0001") || !strings.Contains(said, "é 漢") || strings.Count(said, "\n") != 3 {
		t.Errorf("it prints %q", said)
	}
}

// Only a terminal asks before an action that cannot be undone.
func TestSure(t *testing.T) {
	var out bytes.Buffer
	if err := ask.Sure(true, ask.Call{Stdin: strings.NewReader(""), Stderr: &out}, "All goes"); err != nil || out.Len() > 0 {
		t.Errorf("with --yes: %v %q", err, &out)
	}
	if err := ask.Sure(
		false, ask.Call{Stdin: strings.NewReader("y\n"), Stderr: &out}, "All goes",
	); err == nil || !strings.Contains(err.Error(), "All goes. It cannot be undone: give --yes") {
		t.Errorf("a pipe that says yes: %v", err)
	}
}

// An address is one question's and no other's.
func TestQuery(t *testing.T) {
	got, err := url.ParseQuery(strings.TrimPrefix(ask.Query("topic", "https://a.test/?x=1&y=é", "none", "", "limit", "3"), "?"))
	if err != nil || got.Get("topic") != "https://a.test/?x=1&y=é" || got.Has("none") || len(got) != 2 || ask.Query("a", "") != "" {
		t.Errorf("%v %v", got, err)
	}
}
