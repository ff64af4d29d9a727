package page

import (
	"context"
	"net/http"
	"strings"

	"carillon/operator"
)

// listen shows the page that hears what a topic's subscribers get.
func (p *hubPages) listen(w http.ResponseWriter, r *http.Request) error {
	topic := strings.TrimSpace(r.URL.Query().Get("topic"))
	s := sheet{Title: "Listen", Here: "listen"}
	if topic != "" && web(topic) == "" {
		s.Error = p.errorPageFor(r, invalid("a topic is a whole URL of http or https, not %.80q", topic))
	}
	s.Body = struct {
		Topic string
		On    bool
	}{topic, topic != "" && s.Error == nil}
	p.show(w, r, "listen", s)
	return nil
}

// listenLive subscribes the hub to the topic and sends what it hears, until the client goes.
func (p *hubPages) listenLive(w http.ResponseWriter, r *http.Request) error {
	topic := r.URL.Query().Get("topic")
	if web(topic) == "" {
		return invalid("a topic is a whole URL of http or https")
	}
	return p.feed(w, r, func(ctx context.Context, send func([]byte) bool) {
		for heard, err := range p.desk.Listen(ctx, topic) {
			if !send(p.heardPart(r, heard, err)) {
				return
			}
		}
	})
}

// heardPart is an entry of the list of what was heard.
func (p *hubPages) heardPart(r *http.Request, heard operator.TestEvent, err error) []byte {
	v := struct {
		operator.TestEvent
		Wrong *errorPage
	}{heard, p.errorPageFor(r, err)}
	return p.part("listen", "heard", v)
}
