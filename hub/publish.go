package hub

import (
	"net/http"

	"carillon/delivery"
	"carillon/internal/weblink"
	"carillon/payload"
	"carillon/topic"
)

// selfName is what errors call the topic of a publication by.
const selfName = "Link rel=self"

// publish answers a content publish: 200 when it is durable (CN §4.1). Everything
// that may refuse it without its body comes before the body is read.
func (h *Hub) publish(w http.ResponseWriter, r *http.Request, media string) error {
	grant, err := h.keeper.authenticate(w, r, kindPublish)
	if err != nil {
		return err
	}
	at, p, err := h.announced(r)
	if err != nil {
		return err
	}
	if err := h.keeper.covered(w, r, grant, kindPublish, selfName, at); err != nil {
		return err
	}
	if r.ContentLength > h.cfg.MaxBody {
		return &http.MaxBytesError{Limit: h.cfg.MaxBody}
	}
	if r.ContentLength == 0 {
		return errEmpty()
	}
	if err := h.checkTopic(r, at, grant == nil); err != nil {
		return err
	}
	body, release, err := h.readBody(w, r, h.cfg.MaxBody)
	defer release()
	if err != nil {
		return err
	}
	p.Body = body
	if len(p.Body) == 0 {
		return errEmpty()
	}
	found, err := judge(media, p.Body)
	if err != nil {
		return err
	}
	p.From, p.Until = found.from, found.until
	// The token may have been revoked while the body came, which may take minutes.
	if err := h.keeper.permit(w, r, kindPublish, selfName, at); err != nil {
		return err
	}
	return h.accept(w, r, at, p, found.miss)
}

// checkTopic reports whether the topic names this hub. A stranger who wants to know what is not
// remembered makes the hub ask, and has his rate, and his turn at a site in bad standing. A
// Source, and a topic with subscribers, are not held up by what strangers asked for there.
func (h *Hub) checkTopic(r *http.Request, at topic.Address, stranger bool) error {
	if said, ok := h.parts.Checker.remembered(at); ok {
		return said
	}
	if stranger {
		if _, err := h.clients.admit(r, 1); err != nil {
			return err
		}
	}
	_, wanted := h.parts.Audience.Spelling(at.Key())
	return h.parts.Checker.check(r.Context(), at, stranger && !wanted)
}

// errEmpty refuses an empty publication: a publish carries the whole payload (CN
// §4.1), and a delivery the full content of the topic (WebSub §7).
func errEmpty() error {
	return badRequest(
		"The body is empty: it is what is published. To have the hub fetch the topic, send a form with hub.mode=publish.",
	)
}

// announced reads what the header says of a publication: its topic, its media
// type and its links.
func (h *Hub) announced(r *http.Request) (at topic.Address, p delivery.Publication, err error) {
	p.ContentType = r.Header.Get("Content-Type")
	if !plainType(p.ContentType) {
		return at, p, badRequest("Content-Type must be of ASCII, %d bytes at most.", maxContentType)
	}
	// The readable links count: a broken link beside good ones does no harm, and a needed one is missed
	// below.
	links, _ := weblink.Parse(r.Header.Values("Link"))
	if at, err = selfLink(links); err != nil {
		return at, p, err
	}
	if err := h.checkAddress(selfName, at.String()); err != nil {
		return at, p, err
	}
	p.Topic = at
	if !h.named(links) {
		return at, p, badRequest("Link names no rel=hub that is this hub: %s", h.cfg.URL)
	}
	p.Links, err = h.cfg.relayed(links)
	return at, p, err
}

// selfLink returns the one topic that the links name. The same one may be named
// several times.
func selfLink(links []weblink.Link) (at topic.Address, err error) {
	selves := weblink.Find(links, relSelf)
	if len(selves) == 0 {
		return at, badRequest(
			"Link with rel=self is missing: it names the topic of what is published. Link with rel=hub names this hub.",
		)
	}
	at = topic.Parse(selves[0].URI)
	for _, l := range selves[1:] {
		if !topic.Parse(l.URI).Same(at) {
			return at, badRequest("Link names more than one rel=self: a publication has one topic.")
		}
	}
	return at, nil
}

// named reports whether a rel=hub of the links is this hub. Most Sources write its URL as it is
// published.
func (h *Hub) named(links []weblink.Link) bool {
	hubs := weblink.Find(links, relHub)
	return len(hubs) == 1 && hubs[0].URI == h.cfg.URL || namesHub(links, h.self)
}

// accept hands a publication on and answers with its id. One that was handed in
// before is answered as it was then. A miss is a warning to the Source.
func (h *Hub) accept(
	w http.ResponseWriter, r *http.Request, at topic.Address, p delivery.Publication, miss *payload.Miss,
) error {
	size := len(p.Body)
	ctx, cancel := h.storing(r)
	defer cancel()
	receipt, err := h.parts.Publisher.Publish(ctx, p)
	if err != nil {
		return err
	}
	if !receipt.Repeated {
		h.metrics.bytes.Add(float64(size))
	}
	if miss != nil {
		if !receipt.Repeated {
			h.lookalikes.note(at, *miss)
		}
		w.Header().Set("X-Hub-Warning", warning(*miss))
	}
	id := receipt.ID.String()
	w.Header().Set("X-Hub-Notification-Id", id)
	if h.answers != nil {
		w.Header().Set("Location", h.answers.address(at.String(), receipt.ID))
	}
	writeText(w, http.StatusOK, id)
	return nil
}
