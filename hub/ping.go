package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	registered "carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// ping answers hub.mode=publish: 204 when it is durable that the topics are to be fetched. WebSub §6
// leaves the way to the hub; some Sources count only 204. The mode stands in the body, so that the hub
// reads it before it asks for a token: a form is short (MaxForm).
func (h *Hub) ping(w http.ResponseWriter, r *http.Request, values url.Values) error {
	grant, err := h.keeper.authenticate(w, r, kindPing)
	if err != nil {
		return err
	}
	topics, err := h.pingTopics(values, grant)
	if err != nil {
		return err
	}
	for _, at := range topics {
		if err := h.keeper.covered(w, r, grant, kindPing, "hub.url, or hub.topic,", at); err != nil {
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

// pingTopics returns the topics that a ping names, each once. grant is the Source's; nil if the hub
// needs none.
func (h *Hub) pingTopics(values url.Values, grant *registered.Grant) ([]topic.Address, error) {
	var topics []topic.Address
	seen := make(map[string]bool)
	for _, name := range []string{"hub.url", "hub.topic"} {
		for _, value := range values[name] {
			for _, at := range h.listed(value, grant) {
				if at.Key() == "" || seen[at.Key()] {
					continue
				}
				if len(topics) == h.cfg.MaxPingTopics {
					return nil, badRequest(
						"hub.url and hub.topic name more than %d topics: send several requests.", h.cfg.MaxPingTopics,
					)
				}
				if err := h.checkAddress(name, at.String()); err != nil {
					return nil, err
				}
				seen[at.Key()] = true
				topics = append(topics, at)
			}
		}
	}
	if len(topics) == 0 {
		return nil, badRequest("hub.url is missing: it names the topic that has changed, and may be repeated.")
	}
	return topics, nil
}

// betweenURLs is where a list of URLs would be cut.
var betweenURLs = regexp.MustCompile(`(?i),\s*https?://`)

// listed returns the topics that one value of a ping means. Some Sources join several topics by commas,
// which a URL may contain as well. So a value that is known as a topic is one. Otherwise its parts are
// topics; and so is the value itself unless one of the parts is known, or it is no URL. If the grant covers
// the value but not all parts, the value is one topic. If it does not cover the value, that is a list.
func (h *Hub) listed(value string, grant *registered.Grant) []topic.Address {
	whole := topic.Parse(value)
	cuts := betweenURLs.FindAllStringIndex(value, -1)
	if len(cuts) == 0 || h.fetcher.known(whole) {
		return []topic.Address{whole}
	}
	covers := func(at topic.Address) bool { return grant == nil || grant.Covers(at) }
	var parts []topic.Address
	known, all, from := false, true, 0
	for _, cut := range append(cuts, []int{len(value), 0}) {
		part := topic.Parse(strings.TrimSpace(value[from:cut[0]]))
		if h.parts.Addresses.CheckURL(part.String()) != nil {
			return []topic.Address{whole}
		}
		known = known || h.fetcher.known(part)
		all = all && covers(part)
		parts = append(parts, part)
		from = cut[0] + 1
	}
	switch fits := !known && covers(whole) && h.checkAddress("hub.url", value) == nil; {
	case fits && all:
		return append(parts, whole)
	case fits:
		return []topic.Address{whole}
	}
	return parts
}
