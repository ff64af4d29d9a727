package page

import (
	"fmt"
	"net/http"
	"strings"

	"carillon/operator"
	"carillon/operator/api"
)

// notificationsShown is how many notifications a topic's page lists: each is counted over
// all subscriptions of the topic.
const notificationsShown = 20

// topicList is the answer to a search for topics.
type topicList struct {
	operator.TopicPage
	Contains string
	Failing  bool
	More     string // the query of the next page; "" on the last one
	First    string // that of the first; "": this is it
	Filtered bool
}

// topicPages show topics and their notifications, and trim logs.
type topicPages struct {
	*renderer
	desk api.TopicService
}

func (p *topicPages) topics(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	q := r.URL.Query()
	v := topicList{Contains: strings.TrimSpace(q.Get("contains")), Failing: q.Get("failing") != ""}
	s := sheet{Title: "Topics", Here: "topics"}
	var err error
	v.TopicPage, err = p.desk.Topics(
		ctx, operator.TopicQuery{Contains: v.Contains, Failing: v.Failing, After: q.Get("after")},
	)
	s.Error = p.errorPageFor(r, err)
	v.Filtered = v.Contains != "" || v.Failing
	if v.Next != "" {
		v.More = with(q, "after", v.Next)
	}
	if q.Get("after") != "" {
		v.First = with(q, "after", "")
	}
	s.Body = v
	p.show(w, r, "topics", s)
	return nil
}

// topicView is one topic with its latest notifications.
type topicView struct {
	operator.Topic
	Page  operator.NotificationPage
	Wrong *errorPage // there are no notifications to show
	More  string
	First string
}

func (p *topicPages) topic(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	q := r.URL.Query()
	topic, err := p.desk.Topic(ctx, q.Get("topic"))
	if err != nil {
		return err
	}
	v := topicView{Topic: topic}
	before, err := seqOf(q, "before", "before")
	if err == nil && topic.Head > 0 {
		v.Page, err = p.desk.Notifications(ctx, topic.Topic, before, notificationsShown)
	}
	v.Wrong = p.errorPageFor(r, err)
	if v.Page.Next != 0 {
		v.More = with(q, "before", fmt.Sprint(v.Page.Next))
	}
	if before != 0 {
		v.First = with(q, "before", "")
	}
	p.show(w, r, "topic", sheet{Title: "Topic", Here: "topics", Body: v})
	return nil
}

// trim asks, and then removes the older notifications of a topic.
func (p *topicPages) trim(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	if err := readForm(r); err != nil {
		return err
	}
	topic, err := p.desk.Topic(ctx, r.Form.Get("topic"))
	if err != nil {
		return err
	}
	before, wrong := seqOf(r.Form, "before_seq", "the number")
	if r.Method == http.MethodPost && wrong == nil {
		if before == 0 {
			wrong = invalid("say before which number notifications are to go")
		} else if before > topic.Head+1 {
			wrong = invalid(
				"the newest is number %s: say %s at most, which removes all", number(topic.Head),
				number(topic.Head+1),
			)
		} else if result, err := p.desk.Trim(ctx, topic.Topic, before); err != nil {
			wrong = err
		} else if len(result.Trouble) > 0 {
			wrong = &errorPage{
				Status: http.StatusOK, Title: trimmedText(result), Text: strings.Join(result.Trouble, "\n"),
				Advice: "These processes could not be reached, and may still deliver notifications from memory. Trim once more when they are well.",
			}
		} else {
			return see(
				w, r,
				fmt.Sprintf("%s&done=trim&n=%d&bytes=%d", topicPath(topic.Topic), result.Notifications, result.Bytes),
			)
		}
	}
	says := []string{
		fmt.Sprintf("Notifications with lower numbers leave the log of this topic for good. It has %s to %s, which take %s.",
			number(topic.First), number(topic.Head), size(topic.Bytes)),
	}
	if topic.Behind > 0 {
		says = append(says, fmt.Sprintf("%s to get something of this topic. Whoever waits for a notification that goes has a gap, and never gets it, but where an attempt is under way at this moment.",
			plural(topic.Behind, "subscription still has", "subscriptions still have")))
	}
	p.confirm(w, r, "Trim a topic", "topics", confirm{
		About: topic.Topic, Says: says, Button: "Trim the log", Danger: true, Back: topicPath(topic.Topic),
		Hidden: []hidden{{"topic", topic.Topic}},
		Fields: []field{{
			Name: "before_seq", Label: "Remove everything before number", Value: r.Form.Get("before_seq"), Number: true, Required: true,
			Hint: fmt.Sprintf("%s removes all that there is now; the log goes on after it.", number(topic.Head+1)),
		}},
	}, wrong)
	return nil
}

// notificationView answers whether it was delivered to all.
type notificationView struct {
	operator.NotificationDetail
	Answer verdict
}

// notification shows one, or the form to find it by.
func (p *topicPages) notification(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	q := r.URL.Query()
	v := struct {
		ID, Topic string
		Found     *notificationView
	}{ID: strings.TrimSpace(q.Get("id")), Topic: strings.TrimSpace(q.Get("topic"))}
	s := sheet{Title: "Notification", Here: "topics"}
	if v.ID != "" {
		id, err := idOf(v.ID, "notification")
		if err == nil {
			var n operator.NotificationDetail
			if n, err = p.desk.Notification(ctx, v.Topic, id); err == nil {
				v.Found = &notificationView{n, verdictOf(n.Tally, n.MissingShards)}
			}
		}
		s.Error = p.errorPageFor(r, err)
	}
	s.Body = v
	p.show(w, r, "notification", s)
	return nil
}

// verdict is whether all have got a notification, in a word and in a sentence.
type verdict struct {
	Tone string // good, calm, warm or bad
	Word string
	Text string
}

// verdictOf answers "was it delivered to all?".
func verdictOf(t operator.Tally, missing int) verdict {
	a := verdict{"good", "Yes.", fmt.Sprintf("All %s subscribers have got it.", number(t.Subscribers))}
	lost := t.GivenUp + t.Trimmed
	switch {
	case t.Subscribers == 0:
		a = verdict{"calm", "Nobody waits for it.", "No subscription that stands now is old enough to get it."}
	case t.Subscribers == 1 && t.Delivered == 1:
		a.Text = "Its one subscriber has got it."
	case lost > 0:
		a = verdict{"bad", "No.", gotIt(t)}
	case t.Pending > 0:
		a = verdict{"warm", "Not yet.", gotIt(t)}
		if t.Failing == 0 {
			a.Tone = "calm"
		}
	}
	if missing > 0 {
		was := a.Word
		a.Word, a.Text = "It is not known of all.", "Of those that were looked at: "+a.Text
		if was == "No." {
			a.Word = was
		} else if a.Tone == "good" {
			a.Tone = "warm"
		}
	}
	return a
}

// gotIt reports how many have got it, and the outcome of the rest.
func gotIt(t operator.Tally) string {
	text := fmt.Sprintf("%s of %s subscribers have got it", number(t.Delivered), number(t.Subscribers))
	var rest []string
	if t.Pending > 0 {
		more := fmt.Sprintf("%s still to be delivered", number(t.Pending))
		if t.Failing > 0 {
			more += fmt.Sprintf(" (%s failing so far)", number(t.Failing))
		}
		rest = append(rest, more)
	}
	if t.GivenUp > 0 {
		rest = append(rest, fmt.Sprintf("%s given up", number(t.GivenUp)))
	}
	if t.Trimmed > 0 {
		rest = append(rest, fmt.Sprintf("%s lost because the log was trimmed", number(t.Trimmed)))
	}
	return text + "; " + strings.Join(rest, ", ") + "."
}
