package page_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/operator/page"
)

// streaming serves the pages of a desk.
func streaming(t *testing.T, d *fakeService, every time.Duration) (origin string, stop func()) {
	t.Helper()
	stopping := make(chan struct{})
	s := httptest.NewServer(page.New(page.Config{Service: d, Every: every, Stopping: stopping, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	return s.URL, func() { close(stopping) }
}

// events opens a stream. The channel has the data of each event and is closed at its end.
func events(t *testing.T, ctx context.Context, address string) (*http.Response, <-chan string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string)
	go func() {
		defer close(all)
		defer resp.Body.Close()
		var data strings.Builder
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				data.WriteString(text + "\n")
			} else if lines.Text() == "" && data.Len() > 0 {
				select {
				case all <- data.String():
				case <-ctx.Done():
					return
				}
				data.Reset()
			}
		}
	}()
	return resp, all
}

// The overview goes on by itself, reports the fault where that happens, and ends with the
// hub.
func TestLiveOverview(t *testing.T) {
	d := newFixture()
	origin, stop := streaming(t, d, time.Millisecond)
	resp, all := events(t, t.Context(), origin+"/live")
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the header is %v", resp.Header)
	}
	first := <-all
	balanced(t, "live", first)
	for _, part := range []string{
		`id="live-state"`, `id="live-counts"`, `id="live-connections"`, `id="live-delivered"`,
		`id="live-numbers"`, "1\u202f034\u202f500",
	} {
		if !strings.Contains(first, part) {
			t.Errorf("the first event has no %s", part)
		}
	}
	d.fail(context.DeadlineExceeded)
	for text := range all {
		if strings.Contains(text, "There was no answer in time") {
			break
		}
	}
	stop()
	for range all { // ends
	}
}

// The deliveries of a listener arrive as parts of a page, and the test callback ends with the client.
func TestLiveListening(t *testing.T) {
	d := newFixture()
	origin, _ := streaming(t, d, time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	_, all := events(t, ctx, origin+"/listen/live?topic="+url.QueryEscape(hostileTopic))
	var heard []string
	for range d.heard {
		heard = append(heard, <-all)
	}
	if text := strings.Join(heard, ""); strings.Contains(text, "<script") || !strings.Contains(text, "&lt;script&gt;alert(1)") || !strings.Contains(text, "Notification 57 arrived.") {
		t.Errorf("heard:\n%s", text)
	}
	for _, part := range heard {
		balanced(t, "heard", part)
	}
	leave()
	d.await(t, "deaf")
	if did := d.done(); did != "listen "+hostileTopic+"; deaf" {
		t.Errorf("the service did %q", did)
	}
}

// Findings of a check arrive as parts of a page, and then its summary.
func TestLiveCheck(t *testing.T) {
	d := newFixture()
	origin, _ := streaming(t, d, time.Hour)
	_, all := events(t, t.Context(), origin+"/check/live?url="+url.QueryEscape(hostileTopic)+"&url=https%3A%2F%2Fb.test%2F")
	var parts []string
	for part := range all {
		balanced(t, "checked", part)
		parts = append(parts, part)
	}
	text := strings.Join(parts, "")
	for _, part := range []string{
		"core 11.2", "loc is &lt;script&gt;alert(1)&lt;/script&gt;", ":7 url[3]/loc", "Write one.",
		"1 error", "2 warnings", "Not everything was looked at", "3 documents",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the parts have no %q:\n%s", part, text)
		}
	}
	if did := d.done(); did != fmt.Sprintf("check %q", []string{hostileTopic, "https://b.test/"}) {
		t.Errorf("the service did %q", did)
	}
}

// However many pages are open, no more than so many are live.
func TestLivePagesAreBounded(t *testing.T) {
	origin, _ := streaming(t, newEmpty(), time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range page.MaxStreams {
		resp, _ := events(t, ctx, origin+"/live")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("a stream: %d", resp.StatusCode)
		}
	}
	resp, _ := events(t, ctx, origin+"/live")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one stream too many: %d", resp.StatusCode)
	}
}
