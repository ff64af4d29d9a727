package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// ear writes down what it hears.
type ear struct{ heard chan string }

func newEar() *ear { return &ear{make(chan string, 1000)} }

func (e *ear) Published(topic string, head delivery.Seq) {
	e.heard <- fmt.Sprint("published ", head, " ", topic)
}
func (e *ear) Requested(id subscription.ID) { e.heard <- fmt.Sprint("requested ", id) }
func (e *ear) Pinged(p delivery.Ping)       { e.heard <- fmt.Sprint("pinged ", p.Count, " ", p.Topic) }
func (e *ear) Refresh()                     { e.heard <- "refresh" }

// want is what the ear hears next, within a bound; refreshes that come in between
// are passed over unless they are wanted.
func (e *ear) want(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case got := <-e.heard:
			if got == want {
				return
			}
			if got != "refresh" {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-timeout:
			t.Fatalf("nothing was heard, want %q", want)
		}
	}
}

// listen listens until the test or stop ends it, and waits until it hears.
func listen(t *testing.T, db *redisstore.DB) (e *ear, stop func()) {
	t.Helper()
	e = newEar()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.Listen(ctx, e) }()
	e.want(t, "refresh")
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Listen returned %v, want nil", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Listen does not end")
		}
	}
	t.Cleanup(stop)
	return e, stop
}

// slow makes the poll so rare that all news comes by the bell.
func slow(w *world) *world {
	w.cfg.Poll = time.Hour
	return w
}

func TestProcessesHearEachOther(t *testing.T) {
	t.Parallel()
	w := slow(newWorld(t))
	one, two := w.open(t), w.open(t)
	first, _ := listen(t, one)
	second, _ := listen(t, two)
	both := func(want string) {
		t.Helper()
		first.want(t, want)
		second.want(t, want)
	}
	spelled := strings.Replace(topicURL, "change", "%63hange", 1)
	receipt := publish(t, one, spelled, 1)
	both(fmt.Sprint("published ", receipt.Seq, " ", topicURL))
	pings := ping(t, two, spelled, topicURL+"with a space")
	both(fmt.Sprint("pinged ", pings[0].Count, " ", spelled))
	both(fmt.Sprint("pinged ", pings[1].Count, " ", topicURL, "with a space"))
	id := subscription.NewID(topicURL, "http://destination.example/")
	must(t, one.Subscriptions().Submit(t.Context(), subscription.Request{
		ID: id, Token: uuid.New(), Mode: subscription.ModeSubscribe, Topic: topicURL,
		Callback: "http://destination.example/", Lease: time.Hour, Received: begin,
	}))
	both(fmt.Sprint("requested ", id))
	publish(t, two, topicURL, 1) // repeated: there is nothing new
	receipt = publish(t, two, topicURL, 2)
	both(fmt.Sprint("published ", receipt.Seq, " ", topicURL))
}

func TestAStoreDoesNotHearAnother(t *testing.T) {
	t.Parallel()
	one, other := slow(newWorld(t)), slow(newWorld(t))
	ear, _ := listen(t, one.open(t))
	publish(t, other.db, topicURL, 1)
	receipt := publish(t, one.db, topicURL, 2)
	ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", topicURL))
}

func TestListenSurvivesTheServer(t *testing.T) {
	t.Parallel()
	w := slow(ownWorld(t))
	db := w.open(t)
	ear, _ := listen(t, db)
	w.server.Kill(t)
	w.server.Restart(t)
	ear.want(t, "refresh")
	receipt := publish(t, w.db, topicURL, 1)
	ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", topicURL))
	// The server ends one connection alone.
	w.server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	ear.want(t, "refresh")
	receipt = publish(t, w.db, topicURL, 2)
	ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", topicURL))
}

func TestListenBeginsWithoutAServer(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.server.Kill(t)
	w.cfg.Poll = 100 * time.Millisecond
	db := openOnly(t, w.cfg)
	ear, stop := listen(t, db) // the poll refreshes in any case
	w.server.Restart(t)
	ready(t, w.db)
	eventually(t, func() error {
		receipt := publish(t, w.db, topicURL, 1)
		if receipt.Repeated {
			receipt = publish(t, w.db, topicURL, 2)
		}
		for {
			select {
			case got := <-ear.heard:
				if strings.HasPrefix(got, "published ") {
					return nil
				}
			default:
				return errors.New("nothing was heard of a publication")
			}
		}
	})
	w.server.Kill(t)
	stop()
}

// lines is a log of which a test waits for a line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// want waits for a line with the text, within a bound.
func (l lines) want(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("no line has %q", text)
		}
	}
}

func TestASilentServerIsNoticed(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.cfg.Poll = 200 * time.Millisecond
	log := make(lines, 100)
	w.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	db := w.open(t)
	ear, _ := listen(t, db)
	w.server.Pause(t)
	log.want(t, "not hearing of other processes")
	w.server.Resume(t)
	log.want(t, "hearing of other processes again")
	ear.want(t, "refresh")
	receipt := publish(t, w.db, topicURL, 1)
	ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", topicURL))
	select {
	case line := <-log:
		t.Errorf("it logs more than once: %s", line)
	default:
	}
}

func TestAMessageThatIsNotUnderstoodRefreshes(t *testing.T) {
	t.Parallel()
	w := slow(ownWorld(t))
	ear, _ := listen(t, w.open(t))
	channels := w.server.Do(t, "PUBSUB", "CHANNELS").([]any)
	if len(channels) != 1 {
		t.Fatalf("listening on %v, want one channel", channels)
	}
	for _, message := range []string{"", "x", "n 7", "n x " + topicURL, "n 0 " + topicURL, "r 7", "p 7", "p x " + topicURL} {
		w.server.Do(t, "PUBLISH", channels[0].(string), message)
		ear.want(t, "refresh")
	}
	w.server.Do(t, "PUBLISH", channels[0].(string), "m")
	receipt := publish(t, w.db, topicURL, 1)
	ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", topicURL))
}

func FuzzTell(f *testing.F) {
	for _, message := range []string{
		"n 7 " + topicURL, "r 11111111-2222-5333-8444-555555555555", "p 9 " + topicURL, "m", "", "n 9007199254740992 x",
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		ear := newEar()
		err := redisstore.Tell(ear, message)
		want := 1
		if err != nil || strings.HasPrefix(message, "m") {
			want = 0
		}
		if len(ear.heard) != want {
			t.Errorf("%q: heard %d, error %v", message, len(ear.heard), err)
		}
	})
}
