package page_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/operator"
	"carillon/operator/page"
	"carillon/subscription"
)

// factOf is the text of one fact of a page, with its tags.
func factOf(t *testing.T, body, name string) string {
	t.Helper()
	_, after, found := strings.Cut(body, "<dt>"+name+"</dt><dd")
	if !found {
		return ""
	}
	_, after, _ = strings.Cut(after, ">")
	fact, _, _ := strings.Cut(after, "</dd>")
	return fact
}

// An attempt that is due, or under way, is now, and not some time ago.
func TestNextAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		state string
		next  time.Duration
		want  string
	}{
		"under way":              {operator.StateInFlight, -22 * time.Second, "now"},
		"under way, a first":     {operator.StateInFlight, 0, "now"},
		"due":                    {operator.StateReady, -3 * time.Second, `data-next><span class="rel">now</span>`},
		"due at this moment":     {operator.StateFailing, -time.Second, `data-next><span class="rel">now</span>`},
		"in a while":             {operator.StateFailing, 11*time.Minute + 50*time.Second, `data-next><span class="rel">in 11 min</span>`},
		"idle, so there is none": {operator.StateIdle, 0, ""},
	} {
		d := newFixture()
		s := &d.subs[0]
		s.State, s.NextAttempt = test.state, time.Time{}
		if test.next != 0 {
			s.NextAttempt = d.now.Add(test.next)
		}
		body := get(t, pages(d), "/subscription/"+s.ID.String()).Body.String()
		if got := factOf(t, body, "Next attempt"); !strings.Contains(got, test.want) || strings.Contains(got, "ago") || test.want == "" && got != "" {
			t.Errorf("%s: the subscription's page says %q; want %q", name, got, test.want)
		}
		asked := get(t, pages(d), "/subscription/"+s.ID.String()+"/retry").Body.String()
		if future := test.next > 0; strings.Contains(asked, "the next attempt would be at") != future {
			t.Errorf("%s: retry says %t that the next attempt would be later", name, !future)
		}
	}
}

// A row of who has not got a notification says it in the same way.
func TestNextAttemptOfMissing(t *testing.T) {
	d := newFixture()
	topic := d.topics[3]
	for i := range d.topics {
		if d.topics[i].Subscriptions == 50_000 {
			topic = d.topics[i]
		}
	}
	for i := range d.subs {
		d.subs[i].NextAttempt = d.now.Add(-22 * time.Second)
	}
	body := get(
		t, pages(d),
		"/notification?id="+notificationID(topic.Topic, topic.Head).String()+"&topic="+url.QueryEscape(topic.Topic),
	).Body.String()
	if n := strings.Count(body, `<td data-label="Next attempt"><time`); n < 3 || n != strings.Count(body, `<span class="rel">now</span>`) {
		t.Errorf("%d rows:\n%s", n, body)
	}
}

// A forgotten attempt is not shown as never tried.
func TestHolesAreTold(t *testing.T) {
	d := newFixture()
	for _, s := range d.subs {
		body := get(t, pages(d), "/subscription/"+s.ID.String()).Body.String()
		if told := strings.Contains(body, "what is missing here was tried, too"); told != (len(s.Attempts) > 0) {
			t.Fatalf("%d attempts, told %t", len(s.Attempts), told)
		}
		if len(s.Attempts) > 0 {
			return
		}
	}
}

// The overview shows the connections to callbacks and topics, and what they take of what they may.
func TestConnectionsAreShown(t *testing.T) {
	d := newFixture()
	body := get(t, pages(d), "/").Body.String()
	for name, want := range map[string]string{
		"Open": "30\u202f178 <small>of 142\u202f848</small>", "Idle": "29\u202f998 <small>2\u202f211 dropped</small>",
		"Memory of idle ones": "403 MB <small>of 604 MB</small>", "Memory of TLS sessions": "174 MB <small>of 201 MB</small>",
		"Full TLS handshakes": "34\u202f512", "Resumed": "1\u202f207\u202f433",
	} {
		if got := factOf(t, body, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	d.overview.Connections = operator.Connections{}
	body = get(t, pages(d), "/").Body.String()
	for _, name := range []string{"Open", "Idle", "Full TLS handshakes", "Resumed"} {
		if got := factOf(t, body, name); got != "0" {
			t.Errorf("without connections %s is %q", name, got)
		}
	}
}

// A hub that does not share its store has one process, which needs no name.
func TestOneProcessHasNoName(t *testing.T) {
	d := newEmpty()
	s := newFixture().subs[0]
	s.Process = d.overview.Processes[0].ID
	d.subs = append(d.subs, s)
	if got := factOf(t, get(t, pages(d), "/subscription/"+s.ID.String()).Body.String(), "Delivered by"); got != "" {
		t.Errorf("it is delivered by %q", got)
	}
	if body := get(t, pages(d), "/").Body.String(); strings.Contains(body, ">self<") || !strings.Contains(body, "this one") {
		t.Errorf("the overview names it:\n%s", body)
	}
	full := newFixture()
	if got := factOf(t, get(t, pages(full), "/subscription/"+full.subs[0].ID.String()).Body.String(), "Delivered by"); got != "hub-b-7c9d1f" {
		t.Errorf("of several it is %q", got)
	}
}

// Subscriptions with callbacks of one host differ in the list, which says how it is ordered.
func TestSubscriptionsOfOneHost(t *testing.T) {
	d := newFixture()
	d.subs = d.subs[:40]
	for i := range d.subs {
		callback := fmt.Sprintf("https://one.example/%d", i)
		d.subs[i].Callback, d.subs[i].CallbackHost, d.subs[i].ID = callback, "https://one.example", subscription.NewID(hostileTopic, callback)
	}
	body := get(t, pages(d), "/subscriptions?host=one.example").Body.String()
	for _, s := range d.subs {
		id := s.ID.String()
		if !strings.Contains(body, `<small class="id" title="`+id+`">`+id[:8]+"</small>") {
			t.Errorf("%s is not told apart", id)
		}
	}
	if !strings.Contains(body, "in the order of their IDs") {
		t.Error("it does not say how it is ordered")
	}
}

// The page of a trim that did not reach every process names that, and leads nowhere.
func TestTrimThatNotAllAreToldOf(t *testing.T) {
	d := newTroubled()
	rec := post(t, pages(d), "/topic/trim", url.Values{"topic": {d.topics[9].Topic}, "before_seq": {"110"}})
	if body := rec.Body.String(); rec.Code != 200 || !strings.Contains(
		body, "The log was trimmed: 12 notifications went",
	) || !strings.Contains(body, d.missing.Trouble[0]) {
		t.Errorf("%d\n%s", rec.Code, body)
	}
}

// The form of a replay names the possible numbers, and that of a trim how many wait.
func TestFormsTellTheNumbers(t *testing.T) {
	d := newFixture()
	s := d.subs[0]
	for _, topic := range d.topics {
		if topic.Topic == s.Topic {
			want := fmt.Sprintf("The log of its topic has %s to %s.", page.Number(topic.First), page.Number(topic.Head))
			if body := get(t, pages(d), "/subscription/"+s.ID.String()+"/replay").Body.String(); !strings.Contains(body, want) {
				t.Errorf("no %q in\n%s", want, body)
			}
		}
		if topic.Subscriptions == 50_000 {
			if body := get(t, pages(d), "/topic/trim?topic="+url.QueryEscape(topic.Topic)).Body.String(); !strings.Contains(
				body, "2\u202f112 subscriptions still have to get something of this topic.",
			) {
				t.Errorf("the trim says\n%s", body)
			}
		}
	}
}

// A page that is not there says so once.
func TestTroubleIsToldOnce(t *testing.T) {
	body := get(t, pages(newFixture()), "/topic?topic=x").Body.String()
	if n := strings.Count(body, "There is no such thing here"); n != 1 || !strings.Contains(body, "<h1>Not Found</h1>") {
		t.Errorf("it is told %d times:\n%s", n, body)
	}
}

// Attempts that take less than a millisecond are drawn where they are, and not on the axis.
func TestShortAttemptsAreDrawn(t *testing.T) {
	var steps []operator.Step
	for i := range 20 {
		steps = append(steps, operator.Step{At: time.Unix(int64(i)*5, 0), Seconds: 5, Delivered: 9, P50: 0.0002, P90: 0.0004, P99: 0.0008})
	}
	paths, _ := page.Charts(steps)
	last := paths[len(paths)-3:]
	if last[0] == last[1] || last[1] == last[2] {
		t.Errorf("they are drawn over each other: %q", last)
	}
}
