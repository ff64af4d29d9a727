// Package browsertest gives tests a real browser: a headless Chromium of their own, with a profile in
// a directory of the test, which chromedp controls. It is started once for a test, and its tabs are
// for subtests.
//
// A tab fails its test where a page writes an error to the console, or sends a request to any server
// but its own.
//
// Without a Chromium the test is skipped with a loud line; CARILLON_REQUIRE_BROWSER=1 makes that a
// failure. The browser ends with the test.
package browsertest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// programs are the names that Chromium has, in the order of preference.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// stepTime bounds what a tab does at a time: it is for a machine that is busy otherwise.
const stepTime = 30 * time.Second

// Network is a name for 127.0.0.1 that the browser treats as a host in a network: plain HTTP to it
// is not trusted, and has no Sec-Fetch-Site.
const Network = "network.test"

// Browser is a running browser.
type Browser struct{ ctx context.Context }

// Start starts a browser, which ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options(find(t), t.TempDir())...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	return &Browser{ctx}
}

// options are those of a browser that opens no connection by itself.
func options(program, profile string) []chromedp.ExecAllocatorOption {
	all := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	for _, flag := range []string{
		"no-sandbox", "disable-gpu", "disable-quic", "disable-component-update",
		"disable-domain-reliability", "no-pings",
	} {
		all = append(all, chromedp.Flag(flag, true))
	}
	// There is no other name that it may ask for: tests are at addresses of this machine.
	all = append(
		all, chromedp.Flag("host-resolver-rules", "MAP "+Network+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	return append(all, chromedp.ExecPath(program), chromedp.UserDataDir(profile))
}

// find returns the program, or skips or fails the test.
func find(t testing.TB) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CARILLON_REQUIRE_BROWSER") == "1" {
		t.Fatal("chromium is not installed, and CARILLON_REQUIRE_BROWSER=1 requires it")
	}
	t.Skip(
		"NOT TESTED: chromium is not installed; install it, or set CARILLON_REQUIRE_BROWSER=1 to make this a failure",
	)
	return ""
}

// Tab is a tab of the browser. Its methods are for the goroutine of its test.
type Tab struct {
	t      testing.TB
	ctx    context.Context
	origin string
	seen   *findings
}

// findings are what went wrong in the pages of a tab.
type findings struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

// Tab opens a tab with cookies of its own, for pages of the server at origin
// (http://HOST:PORT). It closes with the test.
func (b *Browser) Tab(t testing.TB, origin string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	tab := &Tab{t: t, ctx: ctx, origin: origin, seen: &findings{}}
	t.Cleanup(func() {
		cancel()
		for _, e := range tab.Errors() {
			t.Error(e)
		}
	})
	if err := chromedp.Listen(ctx, tab.event); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	tab.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		_, err2 := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return errors.Join(err, err2)
	}))
	return tab
}

// In is the same tab for a subtest, which fails where it does not do what is said.
func (tab *Tab) In(t testing.TB) *Tab {
	same := *tab
	same.t = t
	return &same
}

// event looks at what happens in the tab. It must not wait.
func (tab *Tab) event(ev any) {
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err != nil || (u.Scheme != "data" && u.Scheme != "about" && u.Scheme+"://"+u.Host != tab.origin) {
			tab.note("the page asked for " + ev.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		tab.note("a script failed: " + ev.ExceptionDetails.Text + " " + described(ev.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "assert" || ev.Type == "warning" {
			tab.note("the page wrote to the console")
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == "error" || ev.Entry.Level == "warning" {
			tab.note("the console says: " + ev.Entry.Text + " " + ev.Entry.URL)
		}
	}
}

func described(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

func (tab *Tab) note(text string) {
	tab.seen.mu.Lock()
	defer tab.seen.mu.Unlock()
	tab.seen.all = append(tab.seen.all, text)
}

// Errors returns what went wrong in the pages, and forgets it: a test that goes where
// something must go wrong looks at it this way.
func (tab *Tab) Errors() []string {
	tab.seen.mu.Lock()
	defer tab.seen.mu.Unlock()
	all := tab.seen.all
	tab.seen.all = nil
	return all
}

// Do does what is said, and fails the test where that takes too long or cannot be done.
func (tab *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	for i, step := range steps {
		if _, err := run(tab, step); err != nil {
			tab.t.Fatalf("step %d: %v%s", i+1, err, tab.where())
		}
	}
}

// Ask returns what an action finds.
func Ask[T any](tab *Tab, action chromedp.Action[T]) T {
	tab.t.Helper()
	answer, err := run(tab, action)
	if err != nil {
		tab.t.Fatalf("%v%s", err, tab.where())
	}
	return answer
}

// run bounds one step. The first use of a context must not be bounded, as the tab would
// end with it: it is Listen's, in Browser.Tab.
func run[T any](tab *Tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(tab.ctx, stepTime)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// where reports what the tab shows.
func (tab *Tab) where() string {
	ctx, cancel := context.WithTimeout(tab.ctx, stepTime)
	defer cancel()
	at, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return ""
	}
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return "\nat " + at
	}
	return "\nat " + at + ":\n" + text
}

// Open loads a page of the server.
func (tab *Tab) Open(path string) {
	tab.t.Helper()
	tab.Do(chromedp.Navigate(tab.origin + path))
}

// Follow does what leads to another page, and waits for that.
func (tab *Tab) Follow(steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if _, err := run(tab, chromedp.Action[*network.Response](func(ctx context.Context, _ *chromedp.Target) (*network.Response, error) {
		return chromedp.RunResponse(ctx, steps...)
	})); err != nil {
		tab.t.Fatalf("%v%s", err, tab.where())
	}
}

// See waits until the page has the text.
func (tab *Tab) See(text string) {
	tab.t.Helper()
	quoted := "'" + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "'", `\'`) + "'"
	tab.Do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for {
			_, err := chromedp.Run(ctx, chromedp.Poll[bool]("document.body && document.body.innerText.replace(/\\s+/g, ' ').includes("+quoted+")",
				chromedp.WithPollingTimeout(stepTime)))
			switch {
			case err == nil:
				return nil
			case ctx.Err() == nil && strings.Contains(err.Error(), "Cannot find context with specified id"):
				// The tab has left the page for another: the new one is asked.
			default:
				return errors.Join(errors.New("waiting for "+text), err)
			}
		}
	}))
}

// Window sets the size of the window, and whether the user prefers dark colors.
func (tab *Tab) Window(width, height int64, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.Do(chromedp.EmulateViewport(width, height), chromedp.Func(func(
		ctx context.Context, target *chromedp.Target,
	) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// Picture writes what the tab shows, all of the page, as a PNG.
func (tab *Tab) Picture(file string) {
	tab.t.Helper()
	if err := os.WriteFile(file, Ask(tab, chromedp.FullScreenshot(100)), 0o600); err != nil {
		tab.t.Fatal(err)
	}
}
