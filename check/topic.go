package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
	"carillon/payload"
)

// topics looks at topics and at their hubs.
type topics struct {
	*reader
	hubs map[string]bool // hubs that were asked
}

// readTopic reads the document at a topic: the latest notification, or nothing (CN 4.1).
// payload.ValidateNotification has the rules of notifications; the Inspector has the recommendations.
func (t *topics) readTopic(d *document, a *answer, l *lead) {
	if a.status != http.StatusOK {
		return
	}
	body, err := io.ReadAll(io.LimitReader(a.body, payload.MaxReadBytes+1))
	switch {
	case err != nil:
		if !t.limited(err, d.place(""), d.base) {
			t.report(ruleTopicThere, d.place(""), d, "", "it cannot be read: %s", reason(err))
		}
		return
	case len(body) == 0:
		d.other = !d.isChannel()
		if !d.other && d.header.Get("Content-Length") != "0" {
			t.report(ruleTopicEmpty, d.place(""), d, "send Content-Length: 0",
				"the topic has nothing, and its answer has no Content-Length: 0")
		}
		return
	}
	before := t.sum.Errors
	a.body.Reset(bytes.NewReader(body))
	t.readDocument(d, a, l)
	if t.sum.Errors > before || d.other || !d.isChannel() && l.role == roleStart {
		return // the same would be reported again, or it is something else
	}
	_, err = payload.ValidateNotification(bytes.NewReader(body))
	if invalid, ok := errors.AsType[*payload.Invalid](err); ok {
		t.inspected(d, invalid.Violations)
	}
}

// lookAtOther judges a topic that has something else than ResourceSync: a feed, a page (WebSub 4).
func (t *topics) lookAtOther(ctx context.Context, d *document) {
	if d.isHub() {
		return
	}
	switch self := d.addressesOf(d.links, "self"); {
	case len(self) == 0:
		t.report(ruleOtherSelf, d.place(""), d, "send a Link header with rel=self, the topic",
			"it names a hub, and no topic by rel=self")
	case len(self) > 1:
		t.judgeOneSelf(d, http.MethodGet, self)
	}
	t.lookAtHubs(ctx, d)
	t.tell(Finding{
		Level: Note, Clause: rules[ruleOtherSelf].clause, URI: d.uri,
		What: "it is a topic of WebSub, and no document of ResourceSync: links and hub were looked at",
	})
}

// lookAtTopic judges how a topic answers GET and HEAD (CN 4.1, WebSub 4), and whether its hub
// answers.
func (t *topics) lookAtTopic(ctx context.Context, d *document) {
	t.judgeTopicAnswer(d, http.MethodGet, d.status, d.header)
	head, err := t.get(ctx, http.MethodHead, d.base, t.cfg.Limits.Answer)
	switch {
	case err == nil:
		head.close()
		t.judgeTopicAnswer(d, http.MethodHead, head.status, head.header)
	case !t.limited(err, d.place(""), d.base):
		t.report(ruleTopicAnswers, d.place(""), d, "", "HEAD is not answered: %s", reason(err))
	}
	t.lookAtHubs(ctx, d)
}

// judgeTopicAnswer judges one answer of a topic.
func (t *topics) judgeTopicAnswer(d *document, method string, status int, h http.Header) {
	if status != http.StatusOK {
		t.report(ruleTopicAnswers, d.place(""), d, "answer GET and HEAD with 200",
			"%s is answered %d %s", method, status, http.StatusText(status))
		if status/100 != 2 {
			return
		}
	}
	if mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil ||
		mediaType != "application/xml" {
		t.report(ruleTopicType, d.place(""), d,
			"serve it as application/xml, like the notifications", "%s: its Content-Type is %s",
			method, quote(h.Get("Content-Type")))
	}
	links, _ := weblink.Parse(h.Values("Link"))
	t.judgeTopicLinks(d, method, links)
}

// judgeTopicLinks judges the Link headers of a topic.
func (t *topics) judgeTopicLinks(d *document, method string, links []weblink.Link) {
	self := d.addressesOf(links, "self")
	if len(d.addressesOf(links, "hub")) == 0 {
		t.report(ruleTopicHub, d.place(""), d, "send a Link header with rel=hub",
			"%s: no Link header has rel=hub", method)
	}
	switch {
	case len(self) == 0:
		t.report(ruleTopicSelf, d.place(""), d, "send a Link header with rel=self, the topic",
			"%s: no Link header has rel=self", method)
	case len(self) > 1:
		t.judgeOneSelf(d, method, self)
	case self[0] != d.uri && self[0] != d.base.String():
		t.report(ruleSelfIsTopic, d.place(""), d, "name the topic's own address",
			"%s: rel=self is %s", method, quote(self[0]))
	}
}

func (t *topics) judgeOneSelf(d *document, method string, self []string) {
	t.report(ruleOneSelf, d.place(""), d, "name one topic",
		"%s: there are %d links with rel=self, %s and %s among them", method, len(self),
		quote(self[0]), quote(self[1]))
}

// maxHubs is how many hubs are asked: a document could name any server as one.
const maxHubs = 10

// lookAtHubs asks the hubs of a topic, each once.
func (t *topics) lookAtHubs(ctx context.Context, topic *document) {
	for _, hub := range topic.addressesOf(topic.links, "hub") {
		switch {
		case t.hubs[hub]:
		case len(t.hubs) == maxHubs:
			t.leftOut("hubs", topic.place(""),
				fmt.Sprintf("not all hubs were looked at: there are more than %d", maxHubs), "")
			return
		default:
			t.hubs[hub] = true
			t.lookAtHub(ctx, topic, hub)
		}
	}
}

// lookAtHub asks a hub by GET, without parameters: a request that has no effect whatever is
// there. Any answer but one that says that nothing is there shows a hub that can be reached; a
// redirect is not followed. A subscriber asks a hub at any host, so Config.AllowHub decides and
// not Allow.
func (t *topics) lookAtHub(ctx context.Context, topic *document, hub string) {
	to := topic.resolve(hub)
	if to == nil {
		t.report(ruleTopicHub, topic.place(""), topic, "name an http or https address",
			"the hub %s is no web address", quote(hub))
		return
	}
	c := fetch.Client{Transport: asker{t.visitor, t.cfg.AllowHub}, Timeout: t.cfg.Limits.Answer}
	resp, err := t.ask(ctx, &c, http.MethodGet, to, "identity")
	if err != nil {
		if !t.limited(err, topic.place(""), to) {
			t.report(ruleHubAnswers, topic.place(""), topic, "see that the hub runs",
				"the hub %s does not answer: %s", quote(hub), reason(err))
		}
		return
	}
	resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound || status == http.StatusGone ||
		status/100 == 5 && status != http.StatusNotImplemented:
		t.report(ruleHubThere, topic.place(""), topic,
			"see that the hub runs at this address, if it does not take POST alone",
			"the hub %s answers GET by %d %s", quote(hub), status, http.StatusText(status))
	}
}
