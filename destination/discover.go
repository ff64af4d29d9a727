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

// ErrNoHub: the topic responds, but names no hub.
var ErrNoHub = errors.New("the topic names no hub")

// channel is the result of discovery: the topic's self link, and its hubs, https first.
type channel struct {
	topic string
	hubs  []string
}

// asker sends requests to the topic and the hub.
type asker struct{ cfg Config }

// discover finds the hubs of a topic (WebSub §4): in the Link headers of a HEAD, then in those of a
// GET, then in the document. It follows redirects (WebSub §6.1).
func (a *asker) discover(ctx context.Context) (channel, error) {
	c, headErr := a.discoverBy(ctx, http.MethodHead)
	if headErr == nil {
		return c, nil
	}
	c, err := a.discoverBy(ctx, http.MethodGet)
	if err != nil {
		return channel{}, fmt.Errorf("discovering the hub of %s: %w", a.cfg.Topic, err)
	}
	return c, nil
}

func (a *asker) discoverBy(ctx context.Context, method string) (channel, error) {
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
		return channel{}, fmt.Errorf("the response to %s is %s", method, resp.Status)
	}
	base := resp.Request.URL.String()
	// A broken Link header does not spoil the others.
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

// channelOf returns the self link and the hubs. Without a self link it uses the configured topic.
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

// client returns the client for topics and hubs. It follows redirects to other hosts (WebSub §6.1),
// but not from https to http.
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
