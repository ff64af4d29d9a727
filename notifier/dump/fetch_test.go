package dump_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// endless gives the same for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Content by GET: a server's answer is packed if it matches the set, then or now.
func TestFetched(t *testing.T) {
	t.Parallel()
	var asked, moods atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	defer elsewhere.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/good", "/target":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "good")
		case "/untold":
			w.Header().Set("Last-Modified", "Sun, 01 Mar 2026 09:00:00 GMT")
			_, _ = io.WriteString(w, "untold")
		case "/lies", "/short", "/cut":
			if r.URL.Path == "/cut" {
				w.Header().Set("Content-Length", "100")
			}
			_, _ = io.WriteString(w, "bad!")
			if r.URL.Path == "/cut" {
				panic(http.ErrAbortHandler)
			}
		case "/grown": // far more than the set has, and than there is room for
			w.Header().Set("Content-Type", "image/jpeg") // stored as it is
			w.Header().Set("Content-Length", strconv.Itoa(64<<20))
			_, _ = io.Copy(w, io.LimitReader(endless{}, 64<<20))
		case "/endless":
			w.WriteHeader(http.StatusOK)
			_, _ = io.Copy(w, endless{})
		case "/moody":
			if moods.Add(1) < 3 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, "good")
		case "/redirect":
			http.Redirect(w, r, "/target", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/otherport":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/dead":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer site.Close()
	w := newWorld(t, notifier.Config{}, dump.Config{Sets: []dump.Set{{Name: "default"}}, PackageBytes: 1 << 20, Bytes: 32 << 20})
	want := map[string]string{}
	for path, text := range map[string]string{
		"good": "good", "redirect": "good", "moody": "good", "untold": "",
		"lies": "good", "short": "goodgood", "cut": "good", "endless": "", "elsewhere": "", "otherport": "", "loop": "", "forbidden": "", "dead": "good", "gone": "good", "grown": "good",
	} {
		e := entry("", text, payload.Created)
		e.Loc, e.Type = site.URL+"/"+path, ""
		if text == "" {
			e.Hash, e.Length = "", ""
		}
		w.tell(e)
		if path == "good" || path == "redirect" || path == "moody" || path == "untold" {
			want[e.Loc] = text
		}
	}
	// More that is good, so that less than half is left out.
	for i := range 20 {
		e := entry("", "good", payload.Created)
		e.Loc = fmt.Sprintf("%s/good?%d", site.URL, i)
		w.tell(e)
		want[e.Loc] = "good"
	}
	want[site.URL+"/untold"] = "untold"
	a := w.ask()
	if a.Error != "" || a.LeftOut != 11 {
		t.Fatalf("%+v\n%s", a, w.log)
	}
	d := w.document("default/resourcedump.xml")
	w.same(w.dumped(d), want)
	for reason, n := range map[dump.Reason]int{dump.Missing: 1, dump.Refused: 4, dump.Unreachable: 2, dump.Differs: 3, dump.TooLarge: 1} {
		if !w.metric(fmt.Sprintf(`carillon_notifier_dump_left_out_total{reason="%s",set="default"} %d`, reason, n)) {
			t.Errorf("not %d that are left out as %s; the log:\n%s", n, reason, w.log)
		}
	}
	_, file := w.get(d.packages[0].Loc)
	for _, e := range open(t, file).manifest.packages {
		switch e.Loc {
		case site.URL + "/good":
			if e.Type != "text/html" {
				t.Errorf("the type is %q", e.Type)
			}
		case site.URL + "/untold":
			if e.LastMod != "2026-03-01T09:00:00Z" {
				t.Errorf("the lastmod is %q", e.LastMod)
			}
		}
	}
}

// trickle gives a byte after each pause, until its request ends.
type trickle struct {
	ctx   context.Context
	pause time.Duration
}

func (s trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.pause):
		p[0] = 'x'
		return 1, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that is slow costs time up to a bound: half a minute without a byte, or an hour.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pause, took time.Duration
		again       bool
	}{
		"silent": {24 * time.Hour, 30 * time.Second, true},
		"slow":   {29 * time.Second, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				content, err := dump.OpenBy(t.Context(), roundTrip(func(r *http.Request) (*http.Response, error) {
					body := io.NopCloser(trickle{r.Context(), tt.pause})
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: body, Request: r}, nil
				}), "http://source.example/slow")
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, content)
				left, is := errors.AsType[*dump.LeftOutError](err)
				if !is || left.Reason != dump.Unreachable || left.Again != tt.again || time.Since(begun) != tt.took {
					t.Errorf("after %s: %v, %+v", time.Since(begun), err, left)
				}
				if err := content.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
