package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"carillon/internal/weblink"
	"carillon/payload"
)

// readTopic reads what is at a topic: the latest notification, or nothing (CN 4.1). The rules of notifications
// are those of payload.ValidateNotification; what is only recommended the Inspector says.
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
		if d.header.Get("Content-Length") != "0" {
			w.report(ruleTopicEmpty, d.place(""), d, "send Content-Length: 0", "the topic has nothing, and its answer has no Content-Length: 0")
		}
		return
	}
	before := w.sum.Errors
	a.body.Reset(bytes.NewReader(body))
	w.readDocument(d, a, l)
	if w.sum.Errors > before {
		return // the same would be told again
	}
	_, err = payload.ValidateNotification(bytes.NewReader(body))
	if invalid, ok := errors.AsType[*payload.Invalid](err); ok {
		w.inspected(d, invalid.Violations)
	}
}

// judgeTopic: a Capability List names the hub that the topic names (CN 5).
func (w *walk) judgeTopic(l *lead, d *document) {
	if d.known && d.head.Capability != "" && !d.is(payload.ChangeNotification) {
		w.report(ruleOwnChannel, d.place("rs:md/@capability"), d, "have a channel of its own for change notifications",
			"the topic of a channel for change notifications has a %s", kindOf(d.head.Capability, d.isIndex()))
	}
	hubs := relsOf(d.links, "hub")
	for i := range l.entry.Links {
		link := &l.entry.Links[i]
		if link.Rel != "hub" || len(hubs) == 0 {
			continue
		}
		if to := l.from.resolve(link.Href); to != nil && !slices.Contains(hubs, to.String()) {
			w.report(ruleSameHub, l.at, l.from, "name the same hubs at both", "it names the hub %s, and the topic %s names %s",
				quote(link.Href), quote(d.uri), quote(hubs[0]))
		}
	}
}

// lookAtTopic judges how a topic answers GET and HEAD (CN 4.1, WebSub 4), and whether its hub answers.
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
	for _, hub := range relsOf(d.links, "hub") {
		w.lookAtHub(ctx, d, hub)
	}
}

// judgeTopicAnswer judges one answer of a topic.
func (w *walk) judgeTopicAnswer(d *document, method string, status int, h http.Header) {
	if status != http.StatusOK {
		w.report(ruleTopicAnswers, d.place(""), d, "answer GET and HEAD with 200", "%s is answered %d %s", method, status, http.StatusText(status))
		if status/100 != 2 {
			return
		}
	}
	if mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || mediaType != "application/xml" {
		w.report(ruleTopicType, d.place(""), d, "serve it as application/xml, like the notifications", "%s: its Content-Type is %s", method, quote(h.Get("Content-Type")))
	}
	links, _ := weblink.Parse(h.Values("Link"))
	w.judgeTopicLinks(d, method, weblink.Resolve(d.base.String(), links))
}

// judgeTopicLinks judges the Link headers of a topic.
func (w *walk) judgeTopicLinks(d *document, method string, links []weblink.Link) {
	self := relsOf(links, "self")
	if len(relsOf(links, "hub")) == 0 {
		w.report(ruleTopicHub, d.place(""), d, "send a Link header with rel=hub", "%s: no Link header has rel=hub", method)
	}
	switch {
	case len(self) == 0:
		w.report(ruleTopicSelf, d.place(""), d, "send a Link header with rel=self, the topic", "%s: no Link header has rel=self", method)
	case len(self) > 1:
		w.report(ruleOneSelf, d.place(""), d, "name one topic", "%s: there are %d links with rel=self, %s and %s among them", method, len(self), quote(self[0]), quote(self[1]))
	case self[0] != d.uri && self[0] != d.base.String():
		w.report(ruleSelfIsTopic, d.place(""), d, "name the topic's own address", "%s: rel=self is %s", method, quote(self[0]))
	}
}

// relsOf are the targets of the links with a relation, each once.
func relsOf(links []weblink.Link, rel string) (uris []string) {
	for _, l := range weblink.Find(links, rel) {
		if !slices.Contains(uris, l.URI) {
			uris = append(uris, l.URI)
		}
	}
	return uris
}

// lookAtHub asks a hub by GET, without parameters: a request that has no effect whatever is there. Any answer but one that
// says that nothing is there shows a hub that can be reached.
func (w *walk) lookAtHub(ctx context.Context, topic *document, hub string) {
	to := topic.resolve(hub)
	if to == nil {
		w.report(ruleTopicHub, topic.place(""), topic, "name an http or https address", "the hub %s is no web address", quote(hub))
		return
	}
	if w.hubs[to.String()] {
		return
	}
	w.hubs[to.String()] = true
	a, err := w.get(ctx, http.MethodGet, to, w.cfg.Limits.Answer)
	if err != nil {
		if !w.limited(err, topic.place(""), to) {
			w.report(ruleHubAnswers, topic.place(""), topic, "see that the hub runs", "the hub %s does not answer: %s", quote(hub), reason(err))
		}
		return
	}
	a.close()
	switch {
	case a.status == http.StatusNotFound || a.status == http.StatusGone || a.status/100 == 5 && a.status != http.StatusNotImplemented:
		w.report(ruleHubThere, topic.place(""), topic, "see that the hub runs at this address", "the hub %s answers %d %s",
			quote(hub), a.status, http.StatusText(a.status))
	}
}
