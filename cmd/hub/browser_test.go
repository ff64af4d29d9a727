package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"carillon/internal/browsertest"
)

// browserHub is a hub with two subscribers of a topic, of which one fails at first, and a
// browser on its page.
type browserHub struct {
	t     *testing.T
	sink  *sink
	hub   string
	topic string
	ids   []string // of what was published
	tab   *browsertest.Tab
}

const hostileText = `"><script>alert(1)</script>`

// TestPageInBrowser goes over the operator's page of a real hub as an operator would.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	signedIn := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store",
		"pebble:"+filepath.Join(t.TempDir(), "store"), "--admin-token-file", tokenFile(t),
	)
	w := newBrowserHub(t, b)
	tab := w.tab
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"overview", w.overview},
		{"was it delivered to all", w.notYet},
		{"search, and one subscription", w.search},
		{"retry now", w.retry},
		{"delivered to all", w.deliveredToAll},
		{"replay", w.replay},
		{"listen", w.listen},
		{"check", w.check},
		{"Sources", w.sources},
		{"a hostile topic", w.hostile},
		{"remove, by keyboard", w.remove},
		{"the overview goes on", w.goesOn},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			w.t, w.tab = t, tab.In(t)
			step.do(t)
		}) {
			return // the others build on it
		}
	}
	t.Run("sign in", func(t *testing.T) { signIn(t, b.Tab(t, "http://"+signedIn.ready["admin"]), signedIn) })
}

func newBrowserHub(t *testing.T, b *browsertest.Browser) *browserHub {
	w := &browserHub{t: t, sink: newSink(t)}
	p := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store",
		"pebble:"+filepath.Join(t.TempDir(), "store"), "--retry-first", "1h", "--retry-max", "1h",
	)
	w.hub, w.topic = p.ready["url"], w.sink.topicURL("pages")
	w.sink.setHub(w.hub, 0)
	w.tab = b.Tab(t, "http://"+p.ready["admin"])
	for _, name := range []string{"good", "broken"} {
		if status, body, err := subscribe(
			w.hub, w.topic, w.sink.callbackURL(name), url.Values{"hub.secret": {"secret of " + name}},
		); status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, body, err)
		}
	}
	w.sink.await(t, "the verifications", func() bool { return len(w.sink.verified) == 2 })
	// A first one shows that both get what is published from now on.
	w.publish("begin")
	w.got("good", "begin")
	w.got("broken", "begin")
	w.sink.setBroken("broken", true)
	for _, body := range []string{"one", "two", "three"} {
		w.publish(body)
		w.got("good", body)
	}
	return w
}

func (w *browserHub) publish(body string) {
	w.t.Helper()
	status, id, err := publish(w.hub, w.topic, "text/plain", body)
	if status != http.StatusOK {
		w.t.Fatalf("publishing: %d %s %v", status, id, err)
	}
	w.ids = append(w.ids, strings.TrimSpace(id))
}

// got waits until a callback has got something.
func (w *browserHub) got(callback, body string) {
	w.t.Helper()
	w.sink.await(w.t, callback+" to get "+body, func() bool { return w.sink.has(callback, body) })
}

// times is how often a callback has got something, and with how many IDs.
func (w *browserHub) times(callback, body string) (n, ids int) {
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	different := map[string]bool{}
	for _, a := range w.sink.got[callback] {
		if a.body == body {
			n++
			different[a.id] = true
		}
	}
	return n, len(different)
}

func (w *browserHub) overview(*testing.T) {
	w.tab.Open("/")
	w.tab.See("Topics 1 Subscriptions 2 Behind 1 Failing 1")
	w.tab.See("Ready " + w.hub + " on pebble")
	w.tab.See("A this one 64")
}

// goesOn sees the parts that are live bring what is new by themselves.
func (w *browserHub) goesOn(*testing.T) {
	w.tab.Open("/")
	w.tab.See("Topics 1 Subscriptions 1 Behind 0 Failing 0")
	if status, body, err := subscribe(w.hub, w.topic, w.sink.callbackURL("late"), nil); status != http.StatusAccepted {
		w.t.Fatalf("subscribing: %d %s %v", status, body, err)
	}
	w.tab.See("Topics 1 Subscriptions 2 Behind 0 Failing 0")
}

func (w *browserHub) notYet(*testing.T) {
	w.tab.Open("/")
	w.tab.Do(chromedp.SetValue(chromedp.ID("find"), w.ids[1]))
	w.tab.Follow(chromedp.Submit(chromedp.ID("find")))
	w.tab.See("Was it delivered to all? Not yet. 1 of 2 subscribers have got it; 1 still to be delivered (1 failing so far).")
	w.tab.See("failing, tried again")
}

func (w *browserHub) search(t *testing.T) {
	w.tab.Open("/subscriptions")
	w.tab.See("2 subscriptions")
	w.tab.Do(chromedp.SetValue(chromedp.ID("state"), "failing"), chromedp.SetValue(chromedp.ID("host"), "127.0.0.1"))
	w.tab.Follow(chromedp.Submit(chromedp.ID("state")))
	w.tab.See("1 subscription like that")
	w.tab.Follow(chromedp.Click(chromedp.CSS("tbody th a")))
	w.tab.See(w.sink.callbackURL("broken"))
	w.tab.Do(chromedp.WaitVisible(chromedp.CSS("#attempts .failing")))
	w.tab.See("error of the callback (5xx)")
	if text := browsertest.Ask(w.tab, chromedp.Text(chromedp.CSS("main"))); strings.Contains(text, "Delivered by") {
		t.Errorf("of one process the page tells which it is:\n%s", text)
	}
	w.tab.See("503")
}

func (w *browserHub) retry(*testing.T) {
	w.sink.setBroken("broken", false)
	w.tab.Follow(chromedp.Click("//a[text()='Retry now…']"))
	w.tab.See("After 1 failure in a row the next attempt would be at")
	w.tab.Follow(chromedp.Click("//button[text()='Retry now']"))
	w.tab.See("The next attempt is being made now.")
	w.got("broken", "three")
}

func (w *browserHub) deliveredToAll(*testing.T) {
	w.tab.Open("/find?q=" + w.ids[3])
	w.tab.See("Was it delivered to all? Yes. All 2 subscribers have got it.")
	w.tab.See("Who has not got it Nobody.")
}

func (w *browserHub) replay(t *testing.T) {
	w.tab.Open("/subscriptions?contains=127.0.0.1")
	w.tab.Follow(chromedp.Click(chromedp.CSS("tbody th a")))
	callback := "good"
	if strings.Contains(browsertest.Ask(w.tab, chromedp.Text(chromedp.CSS("main"))), "/callback/broken") {
		callback = "broken"
	}
	w.tab.Follow(chromedp.Click("//a[text()='Replay a range…']"))
	w.tab.Do(chromedp.SendKeys(chromedp.ID("from_seq"), "x"))
	w.tab.Follow(chromedp.Submit(chromedp.ID("from_seq")))
	w.tab.See("“From number” must be a whole number")
	if said := w.tab.Errors(); len(said) != 1 || !strings.Contains(said[0], "status of 400") {
		t.Errorf("the console says %q", said)
	}
	w.tab.Do(chromedp.SetValue(chromedp.ID("from_seq"), "2"), chromedp.SetValue(chromedp.ID("last_seq"), "3"))
	w.tab.Follow(chromedp.Submit(chromedp.ID("from_seq")))
	w.tab.See("The replay has begun.")
	w.sink.await(t, "the replay", func() bool {
		n := 0
		for _, a := range w.sink.got[callback] {
			if a.body == "two" {
				n++
			}
		}
		return n == 2
	})
	if n, ids := w.times(callback, "one"); n != 2 || ids != 1 {
		t.Errorf("%s got the first of the replay %d times, with %d IDs", callback, n, ids)
	}
	if n, _ := w.times(callback, "three"); n != 1 {
		t.Errorf("%s got what was not replayed %d times", callback, n)
	}
}

func (w *browserHub) listen(*testing.T) {
	w.tab.Open("/topic?topic=" + url.QueryEscape(w.topic))
	w.tab.Follow(chromedp.Click("//main//a[text()='Listen']"))
	w.tab.Do(chromedp.WaitVisible(chromedp.CSS("#heard .verified")))
	w.publish(hostileText)
	w.tab.Do(chromedp.WaitVisible(chromedp.CSS("#heard .notification")))
	w.tab.See("Listening: 1 notification.")
	w.tab.See(hostileText)
	w.tab.See(w.ids[len(w.ids)-1])
	w.tab.Do(chromedp.Click(chromedp.ID("stop")))
	w.tab.See("Stopped.")
}

// check looks at a topic that is no ResourceSync document, and at one that is not there.
func (w *browserHub) check(*testing.T) {
	w.tab.Open("/topic?topic=" + url.QueryEscape(w.topic))
	w.tab.Follow(chromedp.Click("//main//a[text()='Check']"))
	w.tab.Do(chromedp.WaitVisible(chromedp.CSS("#heard .summary")))
	w.tab.See("The check has ended.")
	w.tab.Open("/check?url=" + url.QueryEscape("http://127.0.0.1:22/"))
	w.tab.Do(chromedp.WaitVisible(chromedp.CSS("#heard .heard-error")))
}

func (w *browserHub) sources(t *testing.T) {
	w.tab.Open("/sources")
	w.tab.See("No Source is registered.")
	w.tab.Do(chromedp.SendKeys(chromedp.ID("name"), "library"), chromedp.SendKeys(chromedp.ID("prefixes"), w.sink.URL+"/topic/"))
	w.tab.Follow(chromedp.Submit(chromedp.ID("name")))
	if token := browsertest.Ask(w.tab, chromedp.Text(chromedp.ID("made"))); len(token) < 20 {
		t.Errorf("the token is %q", token)
	}
	w.tab.Follow(chromedp.Click("//a[text()='It is kept safe']"))
	w.tab.Do(chromedp.WaitNotPresent(chromedp.ID("made")))
	w.tab.Follow(chromedp.Click("//a[text()='Revoke…']"))
	w.tab.Follow(chromedp.Click("//button[text()='Revoke it']"))
	w.tab.See("The Source was revoked")
	w.tab.See("No Source is registered.")
}

func (w *browserHub) hostile(t *testing.T) {
	w.tab.Open("/topics?contains=" + url.QueryEscape(hostileText))
	if got := browsertest.Ask(w.tab, chromedp.Value(chromedp.ID("contains"))); got != hostileText {
		t.Errorf("the field has %q", got)
	}
	w.tab.Open("/topic?topic=" + url.QueryEscape("https://evil.example/"+hostileText))
	w.tab.See("There is no such thing here.")
	if said := w.tab.Errors(); len(said) != 1 || !strings.Contains(said[0], "status of 404") {
		t.Errorf("the console says %q", said)
	}
}

// remove goes from the overview to the end of a subscription with the keyboard.
func (w *browserHub) remove(t *testing.T) {
	const name = `(document.activeElement.getAttribute("aria-label") || document.activeElement.textContent || document.activeElement.id).trim()`
	to := func(what string) {
		t.Helper()
		for range 60 {
			w.tab.Do(chromedp.KeyEvent(kb.Tab))
			if browsertest.Ask(w.tab, chromedp.Evaluate[string](name)) == what {
				return
			}
		}
		t.Fatalf("no Tab leads to %q", what)
	}
	w.tab.Open("/")
	to("Subscriptions")
	w.tab.Follow(chromedp.KeyEvent(kb.Enter))
	to(w.sink.URL)
	w.tab.Follow(chromedp.KeyEvent(kb.Enter))
	to("Remove…")
	w.tab.Follow(chromedp.KeyEvent(kb.Enter))
	to("reason")
	w.tab.Do(chromedp.KeyEvent("it is a test"))
	to("Remove it")
	w.tab.Follow(chromedp.KeyEvent(kb.Enter))
	w.tab.See("The subscription was removed")
	w.tab.See("1 subscription")
}

// operatorsToken is the token of a hub that has one.
const operatorsToken = "a-token-of-the-operator"

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(operatorsToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// signIn opens the page of a hub that has a token: no session without it.
func signIn(t *testing.T, tab *browsertest.Tab, p *process) {
	tab.Open("/topics?contains=x")
	tab.See("Sign in")
	tab.Do(chromedp.SendKeys(chromedp.ID("token"), "another"))
	tab.Follow(chromedp.Submit(chromedp.ID("token")))
	tab.See("That is not the token of this hub.")
	if said := tab.Errors(); len(said) != 1 || !strings.Contains(said[0], "status of 401") {
		t.Errorf("the console says %q", said)
	}
	tab.Do(chromedp.SendKeys(chromedp.ID("token"), operatorsToken))
	tab.Follow(chromedp.Submit(chromedp.ID("token")))
	tab.See("No topic is like that.")
	tab.Open("/")
	tab.See("Nothing was published yet, and nobody has subscribed")
	tab.Follow(chromedp.Click("//button[text()='Sign out']"))
	tab.Open("/")
	tab.See("The operator's token")
	resp, err := http.Get("http://" + p.ready["admin"] + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", resp.StatusCode, body)
	}
}
