package page

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"carillon/admin"
	"carillon/internal/legible"
	"carillon/operator"
)

// listen shows the page that hears what a topic's subscribers get.
func (p *Pages) listen(w http.ResponseWriter, r *http.Request) error {
	topic := strings.TrimSpace(r.URL.Query().Get("topic"))
	s := sheet{Title: "Listen", Here: "listen"}
	if topic != "" && web(topic) == "" {
		s.Error = p.troubleOf(r, invalid("a topic is a whole URL of http or https, not %.80q", topic))
	}
	s.Body = struct {
		Topic string
		On    bool
	}{topic, topic != "" && s.Error == nil}
	p.show(w, r, "listen", s)
	return nil
}

// listenLive subscribes the hub to the topic and sends what it hears, until the client goes.
func (p *Pages) listenLive(w http.ResponseWriter, r *http.Request) error {
	topic := r.URL.Query().Get("topic")
	if web(topic) == "" {
		return invalid("a topic is a whole URL of http or https")
	}
	s, err := p.open(w, r)
	if err != nil {
		return err
	}
	defer s.close()
	events := make(chan []byte)
	go func() {
		defer close(events)
		for heard, err := range p.cfg.Desk.Listen(s.ctx, topic) {
			if s.ctx.Err() != nil {
				return
			}
			select {
			case events <- p.heardPart(r, heard, err):
			case <-s.ctx.Done():
				return
			}
		}
	}()
	defer func() {
		s.cancel()
		for range events { // the subscription is gone when this ends
		}
	}()
	beat := time.NewTicker(admin.BeatEvery)
	defer beat.Stop()
	for {
		var err error
		select {
		case event, ok := <-events:
			if !ok {
				_ = s.Send("end", []byte("end")) // a client that is gone needs no end
				return nil
			}
			err = s.Send("", event)
		case <-beat.C:
			err = s.Beat()
		case <-p.cfg.Stopping:
			return nil
		case <-s.ctx.Done():
			_ = s.Send("end", []byte("end"))
			return nil
		}
		if err != nil {
			return nil // the client is gone
		}
	}
}

// heardPart is an entry of the list of what was heard.
func (p *Pages) heardPart(r *http.Request, heard operator.Heard, err error) []byte {
	var html bytes.Buffer
	v := struct {
		operator.Heard
		Wrong *trouble
	}{Heard: heard}
	if err != nil {
		v.Wrong = p.troubleOf(r, err)
	}
	if err := p.views["listen"].ExecuteTemplate(&html, "heard", v); err != nil {
		p.cfg.Logger.Error("a part of a page cannot be written", "error", err)
	}
	return legible.HTML(html.Bytes())
}
