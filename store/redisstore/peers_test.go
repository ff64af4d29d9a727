package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// word is what was heard of a process.
type word struct {
	answer string
	err    error
}

// ask puts a question and returns what was heard, by process.
func ask(t *testing.T, ctx context.Context, db *redisstore.DB, question string) map[string]word {
	t.Helper()
	words := make(map[string]word)
	err := db.Peers().Ask(ctx, []byte(question), func(process string, answer []byte, err error) {
		if old, again := words[process]; again {
			t.Errorf("%s was heard twice: %v", process, old)
		}
		words[process] = word{string(answer), err}
	})
	must(t, err)
	return words
}

// serve answers until the test ends.
func serve(t *testing.T, db *redisstore.DB, answer func(ctx context.Context, question []byte) []byte) {
	t.Helper()
	serving(t, db, answer)
}

// serving answers until the test ends, or end is called.
func serving(t *testing.T, db *redisstore.DB, answer func(ctx context.Context, question []byte) []byte) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- db.Peers().Serve(ctx, answer) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(end)
	return end
}

// echo answers with who it is and what was asked.
func echo(db *redisstore.DB) func(context.Context, []byte) []byte {
	return func(_ context.Context, question []byte) []byte {
		return append([]byte(db.Peers().Self()+" was asked "), question...)
	}
}

// waitProcesses waits until so many share the store.
func waitProcesses(t *testing.T, db *redisstore.DB, want int) {
	t.Helper()
	eventually(t, func() error {
		n, err := db.Processes(t.Context())
		if err == nil && n != want {
			err = fmt.Errorf("%d processes share the store, want %d", n, want)
		}
		return err
	})
}

// unhurried is a takeover that a process keeps however busy the machine is.
const unhurried = 30 * time.Second

// members starts n more processes that share the store. A process that does not renew its
// membership for a takeover is asked no longer. All wait for each other with patience.
func members(t *testing.T, w *world, n int, takeover time.Duration) []*keeper {
	t.Helper()
	w.db.Peers().SetPatience(time.Minute)
	before, err := w.db.Processes(t.Context())
	must(t, err)
	var all []*keeper
	for range n {
		k := newKeeper(t, w, takeover)
		k.db.Peers().SetPatience(time.Minute)
		all = append(all, k.run())
	}
	waitProcesses(t, w.db, before+n)
	return all
}

func wantWords(t *testing.T, got, want map[string]word) {
	t.Helper()
	if !maps.EqualFunc(got, want, func(a, b word) bool { return a.answer == b.answer && errors.Is(a.err, b.err) }) {
		t.Errorf("heard was %v, want %v", got, want)
	}
}

// TestEverybodyAnswers: each process hears all others and not itself; a command that has
// no shards asks all and is not asked.
func TestEverybodyAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := ask(t, t.Context(), w.db, "nobody"); len(got) != 0 {
		t.Errorf("a store without processes answers %v", got)
	}
	all := members(t, w, 3, unhurried)
	for _, k := range all {
		serve(t, k.db, echo(k.db))
	}
	for _, question := range []string{"how are you?", "", "1 2 3\x00\xff\n"} {
		for _, asker := range []*redisstore.DB{w.db, all[0].db, all[2].db} {
			want := make(map[string]word)
			for _, k := range all {
				if name := k.db.Peers().Self(); k.db != asker {
					want[name] = word{answer: name + " was asked " + question}
				}
			}
			wantWords(t, ask(t, t.Context(), asker, question), want)
		}
	}
	owners, err := w.db.Peers().Owners(t.Context())
	must(t, err)
	owned := 0
	for name, shards := range owners {
		owned += len(shards)
		if host, _ := os.Hostname(); !strings.HasPrefix(name, fmt.Sprintf("%s:%d:", host, os.Getpid())) {
			t.Errorf("%q owns %v: the name does not say which process of which machine it is", name, shards)
		}
	}
	if owned == 0 || owned > subscription.Shards {
		t.Errorf("owners are %v", owners)
	}
}

// wantPeers checks that two processes ask each other, and a command both, on whatever
// servers the store is, and that lists without bodies and of gaps work there, too.
func wantPeers(t *testing.T, w *world) {
	t.Helper()
	var all []*keeper
	for range 2 {
		k := &keeper{t: t, db: openOnly(t, w.cfg), done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}
		all = append(all, k.run())
		serve(t, k.db, echo(k.db))
	}
	waitProcesses(t, w.db, 2)
	a, b := all[0].db.Peers().Self(), all[1].db.Peers().Self()
	wantWords(t, ask(t, t.Context(), all[0].db, "?"), map[string]word{b: {answer: b + " was asked ?"}})
	wantWords(t, ask(t, t.Context(), w.db, "?"), map[string]word{a: {answer: a + " was asked ?"}, b: {answer: b + " was asked ?"}})

	publish(t, w.db, topicURL, 1)
	publish(t, w.db, topicURL, 2)
	wantListed(t, w.db, topicURL, 2)
	sub := subscribed(t, w.db, "https://destination.example/gapped", 0)
	s := subscription.ShardOf(sub.ID)
	must(t, w.db.Restore().PutGaps(t.Context(), []delivery.Gap{{Subscription: sub.ID, First: 1, Last: 2, Reason: delivery.GapTrimmed}}))
	for id, err := range w.db.Cursors().Gapped(t.Context(), s) {
		if must(t, err); id != sub.ID {
			t.Errorf("shard %d has %s with a gap", s, id)
		}
	}
	owners, err := w.db.Peers().Owners(t.Context())
	if must(t, err); len(owners) == 0 {
		t.Error("nobody owns a shard")
	}
	_, err = w.db.Subscriptions().Remove(t.Context(), sub)
	must(t, err)
	for _, k := range all {
		k.end()
	}
}

// TestOneDoesNotAnswer: a process that hangs, or that does not serve answers, is reported when the
// question ends, and holds up no other answer.
func TestOneDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 3, unhurried)
	serve(t, all[0].db, echo(all[0].db))
	asked, release := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(asked) })
	serve(t, all[1].db, func(ctx context.Context, _ []byte) []byte {
		tell()
		<-ctx.Done()
		<-release
		return []byte("too late")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	good := all[0].db.Peers().Self()
	words := make(map[string]word)
	must(t, w.db.Peers().Ask(ctx, []byte("?"), func(process string, answer []byte, err error) {
		words[process] = word{string(answer), err}
		if process == good {
			<-asked
			cancel() // it was heard while the others were silent
		}
	}))
	late := word{err: subscription.ErrUnavailable}
	wantWords(t, words, map[string]word{
		good: {answer: good + " was asked ?"}, all[1].db.Peers().Self(): late, all[2].db.Peers().Self(): late,
	})
	close(release)

	// Questions that no process took wait no longer than their askers.
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = w.db.Peers().Ask(ctx, nil, func(string, []byte, error) {})
	for _, key := range w.server.Do(t, "KEYS", prefixOf(w)+":{*}:questions").([]any) {
		if ttl := w.server.Do(t, "PTTL", key.(string)).(int64); ttl == -1 || ttl > 32_000 {
			t.Errorf("%s stays for %d ms", key, ttl)
		}
	}
}

// TestSilenceIsBrief: a process that does not take a question is not waited for until the end, and is
// remembered until it answers one. One that has taken it is waited for, however long it needs.
func TestSilenceIsBrief(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 2, unhurried)
	w.db.Peers().SetPatience(0) // that of the product
	busy, silent := all[0].db.Peers().Self(), all[1].db.Peers().Self()
	release := make(chan struct{})
	serve(t, all[0].db, func(ctx context.Context, question []byte) []byte {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return question
	})
	words := make(map[string]word)
	must(t, w.db.Peers().Ask(t.Context(), []byte("?"), func(process string, answer []byte, err error) {
		words[process] = word{string(answer), err}
		if process == silent {
			close(release) // before the busy one answers
		}
	}))
	wantWords(t, words, map[string]word{busy: {answer: "?"}, silent: {err: subscription.ErrUnavailable}})
	if got := w.db.Peers().Silent(); !slices.Equal(got, []string{silent}) {
		t.Errorf("remembered are %v, want %s", got, silent)
	}
	serve(t, all[1].db, echo(all[1].db))
	eventually(t, func() error {
		words := ask(t, t.Context(), w.db, "again?")
		if got := w.db.Peers().Silent(); len(got) > 0 || words[silent].err != nil {
			return fmt.Errorf("remembered are %v, heard was %v", got, words)
		}
		return nil
	})
}

// TestOneEndsWhileItIsAsked: one that died is not waited for when its Takeover is over.
func TestOneEndsWhileItIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 2, 3*time.Second)
	serve(t, all[0].db, echo(all[0].db))
	ended := make(chan struct{})
	end := serving(t, all[1].db, func(ctx context.Context, _ []byte) []byte {
		close(ended)
		<-ctx.Done()
		return nil
	})
	go func() {
		<-ended
		all[1].gate.close() // it is cut off: its end goes unheard
	}()
	words := ask(t, t.Context(), w.db, "?") // for maxAsk, if it had to wait
	good := all[0].db.Peers().Self()
	wantWords(t, words, map[string]word{
		good: {answer: good + " was asked ?"}, all[1].db.Peers().Self(): {err: subscription.ErrUnavailable},
	})
	if err := words[all[1].db.Peers().Self()].err; !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v, want it to say that the process has ended", err)
	}
	all[1].gate.open()
	end()
}

// TestGreatAnswers: an answer within the bounds arrives; one beyond is an error on its side of the
// question.
func TestGreatAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 1, unhurried)
	name := all[0].db.Peers().Self()
	serve(t, all[0].db, func(_ context.Context, question []byte) []byte {
		switch string(question) {
		case "panic":
			panic("as asked")
		case "more":
			return make([]byte, redisstore.MaxAnswer+1)
		}
		return bytes.Repeat([]byte{0xff}, redisstore.MaxAnswer)
	})
	great := strings.Repeat("?", redisstore.MaxQuestion)
	if got := ask(t, t.Context(), w.db, great)[name]; len(got.answer) != redisstore.MaxAnswer || got.err != nil {
		t.Errorf("got an answer of %d bytes, error %v", len(got.answer), got.err)
	}
	for question, says := range map[string]string{"more": "4194305 bytes", "panic": "failed"} {
		if got := ask(t, t.Context(), w.db, question)[name]; got.err == nil || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%s: got the error %v", question, got.err)
		}
	}
	err := w.db.Peers().Ask(t.Context(), []byte(great+"?"), func(string, []byte, error) { t.Error("it was asked") })
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(redisstore.MaxQuestion+1, " bytes")) {
		t.Errorf("a question that is too long: error %v", err)
	}
}

// TestMessagesThatAreGarbage change nothing, on either side.
func TestMessagesThatAreGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 1, unhurried)
	name := all[0].db.Peers().Self()
	garbage := []string{
		"", " ", "   ", "1", "1 2 3", "1 2 3 4", "2 " + uuid.NewString() + " 1000 ?", "1 " + uuid.NewString() + " -1 ?",
		"1 " + uuid.NewString() + " 99999999999999 ?", "\xff\xff\xff\xff", "1 " + uuid.NewString() + " answer nobody asked for it",
	}
	list := prefixOf(w) + ":{process-" + name + "}:questions"
	for _, text := range garbage {
		w.server.Do(t, "RPUSH", list, text)
	}
	serve(t, all[0].db, func(_ context.Context, question []byte) []byte {
		if string(question) != "?" {
			t.Errorf("it was asked %q", question)
		}
		keys := w.server.Do(t, "KEYS", prefixOf(w)+":{question-*").([]any)
		if len(keys) > 1 { // but for the question itself, which is taken
			t.Errorf("there are the answers %v", keys)
		}
		return []byte("!")
	})
	wantWords(t, ask(t, t.Context(), w.db, "?"), map[string]word{name: {answer: "!"}})

	// An asker takes what comes for an answer only from those whom it asked, and once.
	silent := members(t, w, 1, unhurried)[0].db.Peers().Self()
	heard := make(chan map[string]word, 1)
	go func() { heard <- ask(t, t.Context(), w.db, "?") }()
	list = prefixOf(w) + ":{process-" + silent + "}:questions"
	var question []string
	eventually(t, func() error {
		for _, text := range w.server.Do(t, "LRANGE", list, "0", "-1").([]any) {
			question = strings.Split(text.(string), " ")
			return nil
		}
		return errors.New("it was not asked")
	})
	answers := prefixOf(w) + ":{question-" + question[1] + "}:answers"
	for _, text := range append(garbage, "1 "+uuid.NewString()+" answer !", "1 "+name+" answer a second time", "1 "+silent+" answer at last") {
		w.server.Do(t, "RPUSH", answers, text)
	}
	wantWords(t, <-heard, map[string]word{name: {answer: "!"}, silent: {answer: "at last"}})
}

// TestManyQuestions: those beyond what is answered at a time wait for their turn.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := members(t, w, 2, unhurried)
	taken := make(chan struct{})
	var mu sync.Mutex
	now, most := 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		most = max(most, now)
	}
	for _, k := range all {
		serve(t, k.db, func(_ context.Context, question []byte) []byte {
			if k == all[0] {
				count(1)
				defer count(-1)
				<-taken // others come in meanwhile, if they may
			}
			return question
		})
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			question := fmt.Sprint(i)
			got := make(map[string]word)
			err := w.db.Peers().Ask(t.Context(), []byte(question), func(process string, answer []byte, err error) {
				got[process] = word{string(answer), err}
			})
			if err != nil {
				t.Error(err)
			}
			wantWords(t, got, map[string]word{
				all[0].db.Peers().Self(): {answer: question}, all[1].db.Peers().Self(): {answer: question},
			})
		})
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if left := w.server.Do(t, "LLEN", prefixOf(w)+":{process-"+all[0].db.Peers().Self()+"}:questions"); left != int64(0) || now < 4 {
			return fmt.Errorf("%d questions are under way, and %d wait", now, left)
		}
		return nil
	})
	close(taken)
	wg.Wait()
	if most > 4 {
		t.Errorf("%d questions were answered at a time", most)
	}
}

// TestAServerThatIsAway: to ask is an error; to answer waits for it.
func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	all := members(t, w, 1, unhurried)
	serve(t, all[0].db, echo(all[0].db))
	name := all[0].db.Peers().Self()
	w.server.Kill(t)
	err := w.db.Peers().Ask(t.Context(), nil, func(string, []byte, error) { t.Error("heard somebody") })
	wantError(t, err, subscription.ErrUnavailable)
	w.server.Restart(t)
	waitProcesses(t, w.db, 1)
	wantWords(t, ask(t, t.Context(), w.db, "?"), map[string]word{name: {answer: name + " was asked ?"}})
}
