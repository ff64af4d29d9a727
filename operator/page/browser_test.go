package page_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"image/png"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"carillon/internal/browsertest"
	"carillon/operator/page"
)

func serve(t *testing.T, d *fakeService) string {
	t.Helper()
	s := httptest.NewServer(page.New(page.Config{
		Service: d, Version: "0.6.0", Level: &level{name: "info"}, Every: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// views are pages to look at.
func views(d *fakeService) map[string]string {
	sub, busy := d.subs[0], d.topics[3]
	for _, s := range d.subs {
		if s.State == "failing" {
			sub = s
		}
	}
	for _, t := range d.topics {
		if t.Subscriptions == 50_000 {
			busy = t
		}
	}
	topic, one := url.QueryEscape(busy.Topic), "/subscription/"+sub.ID.String()
	return map[string]string{
		"overview": "/", "topics": "/topics", "topic": "/topic?topic=" + topic, "hostile": "/topic?topic=" + url.QueryEscape(hostileTopic),
		"notification":  "/notification?id=" + notificationID(busy.Topic, busy.Head-7).String() + "&topic=" + topic,
		"delivered":     "/notification?id=" + notificationID(busy.Topic, busy.Head-10).String() + "&topic=" + topic,
		"find":          "/notification",
		"subscriptions": "/subscriptions", "subscription": one, "retry": one + "/retry",
		"replay": one + "/replay?from_seq=140&last_seq=143", "remove": one + "/remove?done=retry",
		"trim": "/topic/trim?topic=" + topic, "sources": "/sources", "revoke": "/sources/library/revoke", "listen": "/listen?topic=" + url.QueryEscape(hostileTopic),
		"check": "/check?url=" + url.QueryEscape(hostileTopic),
		"login": "/login?failed=1", "wrong": "/subscriptions?lag_over=much",
	}
}

// TestPictures saves a picture of each view in the directory that CARILLON_PICTURES names,
// for people to look at.
func TestPictures(t *testing.T) {
	dir := os.Getenv("CARILLON_PICTURES")
	if dir == "" {
		return
	}
	b := browsertest.Start(t)
	full := newFixture()
	servers := map[string]string{"": serve(t, full), "empty-": serve(t, newEmpty()), "troubled-": serve(t, newTroubled())}
	for prefix, origin := range servers {
		tab := b.Tab(t, origin)
		for name, path := range views(full) {
			if prefix != "" && !slices.Contains([]string{"overview", "topics", "subscriptions", "sources"}, name) {
				continue
			}
			for _, width := range []int64{1280, 390} {
				for _, dark := range []bool{false, true} {
					tab.Window(width, 900, dark)
					tab.Open(path)
					tab.Picture(filepath.Join(dir, fmt.Sprintf("%s%s-%d-%t.png", prefix, name, width, dark)))
				}
			}
		}
		tab.Errors() // some pages have a status that the console reports
	}
}

var update = flag.Bool("update", false, "draw the picture in docs anew")

// TestOverviewPicture fails when the overview has changed since the picture in docs was drawn.
// Pixels differ from one browser to the next, so the digest of the page's sources decides, which
// leaves out the comments of Go files. With -update the test draws the picture and writes the digest.
func TestOverviewPicture(t *testing.T) {
	const picture, digestFile = "../../docs/img/overview.png", "../../docs/img/overview.sha256"
	sum := sha256.New()
	for _, name := range []string{
		"html/layout.html", "html/overview.html", "html/parts.html", "static/icon.svg", "static/page.css",
		"chart.go", "overview.go", "fixture_test.go",
	} {
		if filepath.Ext(name) == ".go" {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			// A new set drops the positions, which the removed comments have moved.
			if err := printer.Fprint(sum, token.NewFileSet(), file); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	digest := fmt.Sprintf("%x\n", sum.Sum(nil))
	if *update {
		tab := browsertest.Start(t).Tab(t, serve(t, newFixture()))
		tab.Window(1280, 900, false)
		tab.Open("/")
		tab.Picture(picture)
		if err := errors.Join(os.Chmod(picture, 0o644), os.WriteFile(digestFile, []byte(digest), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := os.ReadFile(digestFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(drawn) != digest {
		t.Error(
			"the overview has changed since its picture was drawn: draw it with go test ./operator/page -run TestOverviewPicture -update, and look at it",
		)
	}
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if config, err := png.DecodeConfig(file); err != nil || config.Width != 1280 {
		t.Errorf("the picture is %d pixels wide, not 1280 (%v)", config.Width, err)
	}
}

// TestInBrowser is what only a browser can tell of the pages, with a desk of thousands of
// rows. One that is really joined to a hub is in cmd/hub.
func TestInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	d := newFixture()
	origin := serve(t, d)
	t.Run("every view fits and can be read", func(t *testing.T) { everyViewFits(t, b.Tab(t, origin), d) })
	t.Run("the overview goes on by itself", func(t *testing.T) { overviewGoesOn(t, b, newFixture()) })
	t.Run("by keyboard alone", func(t *testing.T) { byKeyboard(t, b.Tab(t, origin), d) })
	t.Run("without JavaScript", func(t *testing.T) { withoutScripts(t, b.Tab(t, origin), d) })
	t.Run("hostile text is text", func(t *testing.T) { hostileTextIsText(t, b.Tab(t, origin), d) })
}

// unreadable finds texts with less contrast than WCAG 2.2 asks for (1.4.3), and what is
// wider than the window.
const unreadable = `(() => {
	const luminance = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const color = (text) => (text.match(/[\d.]+/g) || []).map(Number);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = color(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
	const bad = [], wide = document.documentElement;
	if (wide.scrollWidth > wide.clientWidth) bad.push("the page is " + wide.scrollWidth + " wide in " + wide.clientWidth);
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest("noscript, .away, .skip, title, desc, option")) continue;
		const style = getComputedStyle(e), svg = e.closest("svg");
		const a = luminance(color(svg ? style.fill : style.color)), c = luminance(behind(svg ? svg.parentElement : e));
		const ratio = (Math.max(a, c) + .05) / (Math.min(a, c) + .05);
		if (ratio < 4.5) bad.push(e.className + " " + e.tagName + " " + e.textContent.trim().slice(0, 40) + ": " + ratio.toFixed(2));
	}
	return [...new Set(bad)].slice(0, 5).join("\n");
})()`

func everyViewFits(t *testing.T, tab *browsertest.Tab, d *fakeService) {
	for name, path := range views(d) {
		if slices.Contains([]string{"retry", "remove", "revoke", "delivered"}, name) {
			continue // they are made as others are
		}
		tab.Open(path)
		for width, dark := range map[int64]bool{360: false, 1280: true} {
			tab.Window(width, 800, dark)
			if bad := browsertest.Ask(tab, chromedp.Evaluate[string](unreadable)); bad != "" {
				t.Errorf("%s at %d, dark %t: %s", name, width, dark, bad)
			}
		}
		wrong := tab.Errors()
		if name == "wrong" && len(wrong) == 1 && strings.Contains(wrong[0], "status of 400") {
			continue // the console reports the status
		}
		for _, e := range wrong {
			t.Errorf("%s: %s", name, e)
		}
	}
}

func overviewGoesOn(t *testing.T, b *browsertest.Browser, d *fakeService) {
	tab := b.Tab(t, serve(t, d))
	tab.Open("/")
	tab.See("1 034 500")
	for _, part := range []string{"#live-delivered .area", "#live-latency .p99", "#live-failures .spark", "#live-processes .p3"} {
		tab.Do(chromedp.WaitVisible(chromedp.CSS(part)))
	}
	tab.Do(chromedp.Click(chromedp.CSS("#live summary")), chromedp.WaitVisible(chromedp.CSS("#live-numbers table")))
	d.change(func() { d.overview.Counts.Subscriptions = 77_001 })
	tab.See("77 001")
	tab.Do(chromedp.WaitVisible(chromedp.CSS("#live-numbers table"))) // an opened part stays open
	tab.Do(chromedp.Click(chromedp.ID("pause")), chromedp.WaitVisible(chromedp.CSS("#pause[aria-pressed=true]")))
	d.change(func() { d.overview.Counts.Subscriptions = 88_001 })
	tab.Do(chromedp.Click(chromedp.ID("pause")))
	tab.See("88 001")
	// Times are written in one way, by the server and by the page.
	for _, seconds := range []int{3, 61, 5400, 36000, 176400, 2520000} {
		want := page.Long(time.Duration(seconds) * time.Second)
		if got := browsertest.Ask(tab, chromedp.Evaluate[string](fmt.Sprintf("long(%d)", seconds))); got != want {
			t.Errorf("the page writes %d s as %q; want %q", seconds, got, want)
		}
	}
}

// focused is what has the focus.
const focused = `(document.activeElement.getAttribute("aria-label") || document.activeElement.textContent || document.activeElement.id).trim()`

// tabTo presses Tab until something has the focus, and sees that it shows.
func tabTo(t *testing.T, tab *browsertest.Tab, name string) {
	t.Helper()
	for range 40 {
		tab.Do(chromedp.KeyEvent(kb.Tab))
		if browsertest.Ask(tab, chromedp.Evaluate[string](focused)) == name {
			if outline := browsertest.Ask(
				tab, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineStyle`),
			); outline != "solid" {
				t.Errorf("%s has the focus and does not show it: %s", name, outline)
			}
			return
		}
	}
	t.Fatalf("no Tab leads to %q", name)
}

func byKeyboard(t *testing.T, tab *browsertest.Tab, d *fakeService) {
	d.done()
	tab.Open("/subscriptions?state=failing")
	tabTo(t, tab, "Skip to the content")
	tab.Do(chromedp.KeyEvent(kb.Enter))
	if at := browsertest.Ask(tab, chromedp.Evaluate[string]("document.activeElement.id")); at != "main" {
		t.Errorf("the skip link leads to %q", at)
	}
	tabTo(t, tab, "contains")
	tab.Do(chromedp.KeyEvent("broken3.example.com"))
	tab.Follow(chromedp.KeyEvent(kb.Enter))
	tabTo(t, tab, "https://broken3.example.com:8443")
	tab.Follow(chromedp.KeyEvent(kb.Enter))
	tabTo(t, tab, "Retry now…")
	tab.Follow(chromedp.KeyEvent(kb.Enter))
	tabTo(t, tab, "Retry now")
	tab.Follow(chromedp.KeyEvent(kb.Enter))
	tab.See("The next attempt is being made now.")
	if did := d.done(); !strings.HasPrefix(did, "retry ") || strings.Contains(did, ";") {
		t.Errorf("the keyboard did %q", did)
	}
}

func withoutScripts(t *testing.T, tab *browsertest.Tab, d *fakeService) {
	d.done()
	tab.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	tab.Open("/sources")
	tab.Do(chromedp.SendKeys(chromedp.ID("name"), "museum"), chromedp.SendKeys(chromedp.ID("prefixes"), "https://museum.example/"))
	tab.Follow(chromedp.Submit(chromedp.ID("prefixes")))
	if token := browsertest.Ask(tab, chromedp.Text(chromedp.ID("made"))); token != "token-of-museum" {
		t.Errorf("the token is %q", token)
	}
	tab.Open("/sources")
	tab.Do(chromedp.WaitNotPresent(chromedp.ID("made")))
	if did := d.done(); did != `add museum ["https://museum.example/"]` {
		t.Errorf("the form did %q", did)
	}
}

func hostileTextIsText(t *testing.T, tab *browsertest.Tab, d *fakeService) {
	tab.Open("/topics?contains=evil")
	tab.Follow(chromedp.Click(chromedp.CSS("tbody a")))
	if got := browsertest.Ask(tab, chromedp.Text(chromedp.CSS("h1"))); got != hostileTopic {
		t.Errorf("the heading is %q", got)
	}
	tab.Follow(chromedp.Click(chromedp.CSS(".actions a")))
	tab.See("Listening: 1 notification.")
	tab.See("<script>alert(1)</script>")
	tab.Do(chromedp.Click(chromedp.ID("stop")))
	d.await(t, "deaf")
}
