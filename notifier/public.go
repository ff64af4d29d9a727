package notifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gorilla/mux"

	"carillon/internal/negotiate"
	"carillon/payload"
)

// Public returns what the world may see: the Source Description, and for each
// set its Capability List, its topic URI (CN §4.1, §5) and its Change Lists. It answers GET and
// HEAD and takes no events. Its paths are those of Config.URL; the Source
// Description is also at /.well-known/resourcesync where the URL has a path.
func (n *Notifier) Public() http.Handler {
	router := mux.NewRouter().SkipClean(true)
	router.NotFoundHandler = http.HandlerFunc(n.docs.notFound)
	prefix := "/"
	if u, err := url.Parse(n.cfg.URL); err == nil {
		prefix = u.Path
	}
	description := n.docs.readOnly(n.serveDescription)
	router.Path(prefix + ".well-known/resourcesync").Handler(description)
	router.Path("/.well-known/resourcesync").Handler(description) // core §6.3.2
	for _, ch := range n.channels {
		router.Path(prefix + ch.set + "/capabilitylist.xml").Handler(n.docs.readOnly(ch.serveCapabilityList))
		router.Path(prefix + ch.set + "/change/").Handler(n.docs.readOnly(ch.serveTopic))
		ch.lists.route(router, prefix)
		ch.resources.route(router, prefix)
		ch.routeCompanions(router, prefix, false)
		ch.archives.route(router, prefix)
	}
	return router
}

func (n *Notifier) serveDescription(w http.ResponseWriter, r *http.Request) error {
	d := payload.SourceDescription{DescribedBy: n.cfg.DescribedBy[""]}
	for _, ch := range n.channels {
		d.CapabilityLists = append(d.CapabilityLists, payload.CapabilityListRef{
			Loc: n.uris.capabilityList(ch.set), DescribedBy: n.cfg.DescribedBy[ch.set],
		})
	}
	return writeDocument(w, r, func(buf *bytes.Buffer) error { return payload.WriteSourceDescription(buf, d) })
}

func (ch *channel) serveCapabilityList(w http.ResponseWriter, r *http.Request) error {
	list := payload.CapabilityList{
		Up:           ch.n.uris.description(),
		DescribedBy:  ch.n.cfg.DescribedBy[ch.set],
		Capabilities: []payload.Capability{{Loc: ch.lists.url(), Capability: payload.CapChangeList}},
	}
	if one, there := ch.resources.capability(); there {
		list.Capabilities = append(list.Capabilities, one)
	}
	for _, c := range ch.companions {
		list.Capabilities = append(list.Capabilities, c.Capabilities()...)
	}
	list.Capabilities = append(list.Capabilities, ch.archives.capabilities()...)
	if !ch.hidden {
		list.Capabilities = append(list.Capabilities, payload.Capability{
			Loc:        ch.n.uris.topic(ch.set),
			Capability: payload.ChangeNotification,
			Links:      []payload.Link{{Rel: "hub", Href: ch.n.cfg.Hub}}, // CN §5
		})
	}
	return writeDocument(w, r, func(buf *bytes.Buffer) error { return payload.WriteCapabilityList(buf, list) })
}

// writeDocument answers with a small document.
func writeDocument(w http.ResponseWriter, r *http.Request, write func(*bytes.Buffer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	if r.Method == http.MethodHead {
		return nil
	}
	_, _ = w.Write(buf.Bytes()) // a client that has gone needs no answer
	return nil
}

// serveTopic answers with the notification that the hub accepted last, or with
// nothing (CN §4.1).
func (ch *channel) serveTopic(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	header.Set("Link", ch.header.Get("Link"))
	header.Set("Content-Type", "application/xml")
	note := ch.latest()
	if note == nil {
		header.Set("Content-Length", "0")
		return nil
	}
	var body io.ReadCloser
	if r.Method == http.MethodGet && !negotiate.HasTag(r.Header, tagOf(note)) {
		var err error
		if note, body, err = ch.openLatest(r.Context()); err != nil {
			return err
		}
		defer body.Close()
	}
	header.Set("ETag", tagOf(note))
	header.Set("Last-Modified", note.Until.UTC().Format(http.TimeFormat))
	if negotiate.HasTag(r.Header, tagOf(note)) {
		header.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Length", strconv.FormatInt(note.Size, 10))
	if body == nil { // HEAD
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		panic(http.ErrAbortHandler) // so that no client takes a part for the whole
	}
	return nil
}

// tagOf is the entity tag of a notification.
func tagOf(n *Notification) string { return `"` + strconv.FormatInt(n.Until.UnixMicro(), 36) + `"` }

// openLatest opens the notification that the hub accepted last. Where the next one
// was accepted between the look and the opening, that is the latest.
func (ch *channel) openLatest(ctx context.Context) (*Notification, io.ReadCloser, error) {
	for note := ch.latest(); ; {
		body, err := ch.n.cfg.Journal.Body(ctx, *note)
		if !errors.Is(err, ErrGone) {
			return note, body, err
		}
		newer := ch.latest()
		if newer == note {
			return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		note = newer
	}
}
