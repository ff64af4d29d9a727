package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
)

// ErrNoHub: the topic answers, but names no hub.
var ErrNoHub = errors.New("the topic names no hub")

// channel is what discovery finds: the topic's own name for itself, and its
// hubs, those over https first.
type channel struct {
	topic string
	hubs  []string
}

// asker asks the topic and the hub.
type asker struct{ cfg Config }

// discover finds the hubs of a topic (WebSub §4): in the Link headers of a HEAD,
// where that shows none in those of a GET, and then in the document. Redirects
// are followed, as topics move by them (WebSub §6.1).
func (a *asker) discover(ctx context.Context) (channel, error) {
	c, headErr := a.look(ctx, http.MethodHead)
	if headErr == nil {
		return c, nil
	}
	c, err := a.look(ctx, http.MethodGet)
	if err != nil {
		return channel{}, fmt.Errorf("discovering the hub of %s: %w", a.cfg.Topic, err)
	}
	return c, nil
}

func (a *asker) look(ctx context.Context, method string) (channel, error) {
	req, err := a.request(ctx, method, a.cfg.Topic, nil)
	if err != nil {
		return channel{}, err
	}
	resp, err := a.client().Do(req)
	if err != nil {
		return channel{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return channel{}, fmt.Errorf("%s is answered %s", method, resp.Status)
	}
	base := resp.Request.URL.String()
	// What is broken in the headers of a topic does not spoil the rest.
	links, _ := weblink.Parse(resp.Header.Values("Link"))
	c, err := a.channelOf(weblink.Resolve(base, links))
	if err == nil || method == http.MethodHead {
		return c, err
	}
	links, docErr := weblink.FromDocument(resp.Header.Get("Content-Type"), base, resp.Body)
	if c, embedded := a.channelOf(links); embedded == nil {
		return c, nil
	}
	return channel{}, errors.Join(err, docErr)
}

// channelOf picks self and the hubs. A topic that does not name itself is
// taken by the name we know.
func (a *asker) channelOf(links []weblink.Link) (channel, error) {
	c := channel{topic: a.cfg.Topic}
	for _, l := range weblink.Find(links, "self") {
		if u, err := url.Parse(l.URI); err == nil && fetch.Web(u) {
			c.topic = l.URI
			break
		}
	}
	for _, l := range weblink.Find(links, "hub") {
		if u, err := url.Parse(l.URI); err == nil && fetch.Web(u) && !slices.Contains(c.hubs, l.URI) {
			c.hubs = append(c.hubs, l.URI)
		}
	}
	if len(c.hubs) == 0 {
		return channel{}, ErrNoHub
	}
	slices.SortStableFunc(c.hubs, func(a, b string) int { return scheme(b) - scheme(a) })
	return c, nil
}

// scheme ranks https above http.
func scheme(raw string) int {
	if u, err := url.Parse(raw); err == nil && u.Scheme == "https" {
		return 1
	}
	return 0
}

// client asks the topic and the hub. Topics move to other hosts by redirects (WebSub §6.1), but what
// was safe from others on the way stays so.
func (a *asker) client() *fetch.Client {
	return &fetch.Client{
		Transport: a.cfg.Transport, Timeout: requestTimeout, Redirects: maxRedirects,
		Lead: func(from, to *url.URL) error {
			if from.Scheme == "https" && to.Scheme != "https" {
				return fmt.Errorf("it redirects from https to http: %.200q", to)
			}
			return nil
		},
	}
}

func (a *asker) request(ctx context.Context, method, target string, form url.Values) (*http.Request, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", a.cfg.UserAgent)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, nil
}
