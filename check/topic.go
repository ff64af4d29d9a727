package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
	"carillon/payload"
)

// readTopic reads what is at a topic: the latest notification, or nothing (CN 4.1). The rules
// of notifications are those of payload.ValidateNotification; what is only recommended the
// Inspector says.
func (w *walk) readTopic(d *document, a *answer, l *lead) {
	if a.status != http.StatusOK {
		return
	}
	body, err := io.ReadAll(io.LimitReader(a.body, payload.MaxReadBytes+1))
	switch {
	case err != nil:
		if !w.limited(err, d.place(""), d.base) {
			w.report(ruleTopicThere, d.place(""), d, "", "it cannot be read: %s", reason(err))
		}
		return
	case len(body) == 0:
		d.other = !d.isChannel()
		if !d.other && d.header.Get("Content-Length") != "0" {
			w.report(ruleTopicEmpty, d.place(""), d, "send Content-Length: 0",
				"the topic has nothing, and its answer has no Content-Length: 0")
		}
		return
	}
	before := w.sum.Errors
	a.body.Reset(bytes.NewReader(body))
	w.readDocument(d, a, l)
	if w.sum.Errors > before || d.other || !d.isChannel() && l.role == roleStart {
		return // the same would be told again, or it is something else
	}
	_, err = payload.ValidateNotification(bytes.NewReader(body))
	if invalid, ok := errors.AsType[*payload.Invalid](err); ok {
		w.inspected(d, invalid.Violations)
	}
}

// judgeTopic: a Capability List names the hub that the topic names (CN 5).
func (w *walk) judgeTopic(l *lead, d *document) {
	if d.known && d.head.Capability != "" && !d.is(payload.ChangeNotification) {
		w.report(ruleOwnChannel, d.place("rs:md/@capability"), d,
			"have a channel of its own for change notifications",
			"the topic of a channel for change notifications has a %s",
			kindOf(d.head.Capability, d.isIndex()))
	}
	if d.channelOf == nil {
		d.channelOf = l.from
	} else if !d.channelOf.same(l.from) {
		w.report(ruleOwnSet, l.at, l.from, "have a channel of its own for each Capability List",
			"the topic %s is listed in the Capability List %s too", quote(d.uri),
			quote(d.channelOf.uri))
	}
	hubs, told := d.addressesOf(d.links, "hub"), ""
	for i := range l.entry.Links {
		link := &l.entry.Links[i]
		to := l.from.resolve(link.Href)
		switch {
		case link.Rel != payload.RelHub || to == nil:
		case slices.Contains(hubs, to.String()):
			return
		default:
			told = link.Href
		}
	}
	if told != "" && len(hubs) > 0 {
		w.report(ruleSameHub, l.at, l.from, "name the same hubs at both",
			"it names the hub %s, and the topic %s names %s",
			quote(told), quote(d.uri), quote(hubs[0]))
	}
}

// isChannel reports whether a topic is meant for change notifications: it has one, or one that
// cannot be read, or nothing yet.
func (d *document) isChannel() bool {
	switch mediaType, _, _ := mime.ParseMediaType(d.header.Get("Content-Type")); {
	case d.known:
		return d.head.Capability == payload.ChangeNotification || d.head.Capability == ""
	case d.other:
		return false
	default:
		return mediaType == "application/xml" || mediaType == "text/xml" ||
			len(weblink.Find(d.links, relResourceSync)) > 0
	}
}

// isHub reports whether the answer is that of a hub, which names itself as its hub, and no topic.
func (d *document) isHub() bool {
	if !d.other {
		return false
	}
	hubs := d.addressesOf(d.links, "hub")
	return len(hubs) == 1 && hubs[0] == d.base.String()
}

// lookAtOther judges a topic that has something else than ResourceSync: a feed, a page (WebSub 4).
func (w *walk) lookAtOther(ctx context.Context, d *document) {
	if d.isHub() {
		return
	}
	switch self := d.addressesOf(d.links, "self"); {
	case len(self) == 0:
		w.report(ruleOtherSelf, d.place(""), d, "send a Link header with rel=self, the topic",
			"it names a hub, and no topic by rel=self")
	case len(self) > 1:
		w.judgeOneSelf(d, http.MethodGet, self)
	}
	w.lookAtHubs(ctx, d)
	w.tell(Finding{
		Level: Note, Clause: rules[ruleOtherSelf].clause, URI: d.uri,
		What: "it is a topic of WebSub, and no document of ResourceSync: links and hub were looked at",
	})
}

// lookAtTopic judges how a topic answers GET and HEAD (CN 4.1, WebSub 4), and whether its hub
// answers.
func (w *walk) lookAtTopic(ctx context.Context, d *document) {
	w.judgeTopicAnswer(d, http.MethodGet, d.status, d.header)
	head, err := w.get(ctx, http.MethodHead, d.base, w.cfg.Limits.Answer)
	switch {
	case err == nil:
		head.close()
		w.judgeTopicAnswer(d, http.MethodHead, head.status, head.header)
	case !w.limited(err, d.place(""), d.base):
		w.report(ruleTopicAnswers, d.place(""), d, "", "HEAD is not answered: %s", reason(err))
	}
	w.lookAtHubs(ctx, d)
}

// judgeTopicAnswer judges one answer of a topic.
func (w *walk) judgeTopicAnswer(d *document, method string, status int, h http.Header) {
	if status != http.StatusOK {
		w.report(ruleTopicAnswers, d.place(""), d, "answer GET and HEAD with 200",
			"%s is answered %d %s", method, status, http.StatusText(status))
		if status/100 != 2 {
			return
		}
	}
	if mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil ||
		mediaType != "application/xml" {
		w.report(ruleTopicType, d.place(""), d,
			"serve it as application/xml, like the notifications", "%s: its Content-Type is %s",
			method, quote(h.Get("Content-Type")))
	}
	links, _ := weblink.Parse(h.Values("Link"))
	w.judgeTopicLinks(d, method, links)
}

// judgeTopicLinks judges the Link headers of a topic.
func (w *walk) judgeTopicLinks(d *document, method string, links []weblink.Link) {
	self := d.addressesOf(links, "self")
	if len(d.addressesOf(links, "hub")) == 0 {
		w.report(ruleTopicHub, d.place(""), d, "send a Link header with rel=hub",
			"%s: no Link header has rel=hub", method)
	}
	switch {
	case len(self) == 0:
		w.report(ruleTopicSelf, d.place(""), d, "send a Link header with rel=self, the topic",
			"%s: no Link header has rel=self", method)
	case len(self) > 1:
		w.judgeOneSelf(d, method, self)
	case self[0] != d.uri && self[0] != d.base.String():
		w.report(ruleSelfIsTopic, d.place(""), d, "name the topic's own address",
			"%s: rel=self is %s", method, quote(self[0]))
	}
}

func (w *walk) judgeOneSelf(d *document, method string, self []string) {
	w.report(ruleOneSelf, d.place(""), d, "name one topic",
		"%s: there are %d links with rel=self, %s and %s among them", method, len(self),
		quote(self[0]), quote(self[1]))
}

// addressesOf are the targets of the links with a relation, each once, as addresses are
// compared. Other addresses stay as they are.
func (d *document) addressesOf(links []weblink.Link, rel string) (all []string) {
	for _, l := range weblink.Find(links, rel) {
		at := l.URI
		if to := d.resolve(at); to != nil {
			at = to.String()
		}
		if !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// maxHubs is how many hubs are asked: whoever writes a document could name any server as one.
const maxHubs = 10

// lookAtHubs asks the hubs of a topic, each once.
func (w *walk) lookAtHubs(ctx context.Context, topic *document) {
	for _, hub := range topic.addressesOf(topic.links, "hub") {
		switch {
		case w.hubs[hub]:
		case len(w.hubs) == maxHubs:
			w.leftOut("hubs", topic.place(""),
				fmt.Sprintf("not all hubs were looked at: there are more than %d", maxHubs), "")
			return
		default:
			w.hubs[hub] = true
			w.lookAtHub(ctx, topic, hub)
		}
	}
}

// lookAtHub asks a hub by GET, without parameters: a request that has no effect whatever is
// there. Any answer but one that says that nothing is there shows a hub that can be reached; a
// redirect is not followed. A subscriber asks a hub at any host, so Config.AllowHub decides and
// not Allow.
func (w *walk) lookAtHub(ctx context.Context, topic *document, hub string) {
	to := topic.resolve(hub)
	if to == nil {
		w.report(ruleTopicHub, topic.place(""), topic, "name an http or https address",
			"the hub %s is no web address", quote(hub))
		return
	}
	c := fetch.Client{Transport: asker{w, w.cfg.AllowHub}, Timeout: w.cfg.Limits.Answer}
	resp, err := w.ask(ctx, &c, http.MethodGet, to, "identity")
	if err != nil {
		if !w.limited(err, topic.place(""), to) {
			w.report(ruleHubAnswers, topic.place(""), topic, "see that the hub runs",
				"the hub %s does not answer: %s", quote(hub), reason(err))
		}
		return
	}
	resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound || status == http.StatusGone ||
		status/100 == 5 && status != http.StatusNotImplemented:
		w.report(ruleHubThere, topic.place(""), topic,
			"see that the hub runs at this address, if it does not take POST alone",
			"the hub %s answers GET by %d %s", quote(hub), status, http.StatusText(status))
	}
}
