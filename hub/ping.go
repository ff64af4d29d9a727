package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"carillon/subscription"
)

// ping answers hub.mode=publish: 204 when it is durable that the topics are to be
// fetched (WebSub §6 leaves the way to us; some Sources count only 204). That it is a ping stands in
// its body, so that it is read before anybody asks for a token: a form is short (MaxForm).
func (h *Hub) ping(w http.ResponseWriter, r *http.Request, values url.Values) error {
	grant, err := h.keeper.authenticate(w, r, kindPing)
	if err != nil {
		return err
	}
	topics, err := h.pingTopics(values)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if err := h.keeper.covered(w, r, grant, kindPing, "hub.url, or hub.topic,", topic); err != nil {
			return err
		}
	}
	if grant == nil {
		if _, err := h.clients.admit(r, len(topics)); err != nil {
			return err
		}
	}
	release, err := h.fetcher.admit(topics)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := h.storing(r)
	defer cancel()
	pings, err := h.parts.Pings.Ping(ctx, topics)
	if errors.Is(err, subscription.ErrBusy) {
		return fmt.Errorf("%w: %w", errPingsBusy, err)
	}
	if err != nil {
		return err
	}
	h.fetcher.add(pings...)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// pingTopics returns the topics that a ping names, each once.
func (h *Hub) pingTopics(values url.Values) ([]string, error) {
	var topics []string
	seen := make(map[string]bool)
	for _, name := range []string{"hub.url", "hub.topic"} {
		for _, topic := range values[name] {
			if key := subscription.Key(topic); topic == "" || seen[key] {
				continue
			}
			if len(topics) == h.cfg.MaxPingTopics {
				return nil, badRequest("hub.url and hub.topic name more than %d topics: send several requests.", h.cfg.MaxPingTopics)
			}
			if err := h.checkAddress(name, topic); err != nil {
				return nil, err
			}
			seen[subscription.Key(topic)] = true
			topics = append(topics, topic)
		}
	}
	if len(topics) == 0 {
		return nil, badRequest("hub.url is missing: it names the topic that has changed, and may be repeated.")
	}
	return topics, nil
}
