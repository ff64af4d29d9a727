package hub

import (
	"io"
	"net/http"
	"net/url"
	"slices"

	"carillon/internal/weblink"
	"carillon/subscription"
	"carillon/topic"
)

// The relations that say what a publication is and where it goes (WebSub §7, CN §4.1).
const (
	relSelf = "self"
	relHub  = "hub"
)

// namesHub reports whether a rel=hub of the links is the hub, whose URL is in the
// form to compare by.
func namesHub(links []weblink.Link, hub string) bool {
	return slices.ContainsFunc(weblink.Find(links, relHub), func(l weblink.Link) bool {
		return normalHub(l.URI) == hub
	})
}

// relayed returns the further links of a publication as they go into a Link
// header, without the relations that the hub sets itself. An error gives the reason why it
// stopped before the last of them.
func (c Config) relayed(links []weblink.Link) (values []string, err error) {
	size := 0
	for _, l := range links {
		if !slices.ContainsFunc(l.Rel, func(rel string) bool { return !ownRel(rel) }) {
			continue
		}
		l.Rel = slices.DeleteFunc(slices.Clone(l.Rel), ownRel)
		// The subscriber could resolve a relative link only against the
		// wrong address: that of its callback.
		if u, err := url.Parse(l.URI); err != nil || !u.IsAbs() {
			return values, badRequest("Link contains a URL that is not absolute.")
		}
		value := l.String()
		if size += len(value); len(values) == c.MaxLinks || size > c.MaxLinkBytes {
			return values, badRequest(
				"Link contains more than %d further links, or more than %d bytes of them.",
				c.MaxLinks, c.MaxLinkBytes,
			)
		}
		values = append(values, value)
	}
	return values, nil
}

// ownRel reports whether the hub sets a relation itself.
func ownRel(rel string) bool { return rel == relSelf || rel == relHub }

// headerLinks returns the links of an answer's header. A broken one counts as none.
func headerLinks(resp *http.Response, base string) []weblink.Link {
	links, _ := weblink.Parse(resp.Header.Values("Link"))
	return weblink.Resolve(base, links)
}

// discover returns the links of an answer's header. For a relation that the header lacks it adds
// those that the document embeds (WebSub §4), as far into it as weblink reads.
func discover(resp *http.Response, base string, body io.Reader) []weblink.Link {
	links := headerLinks(resp, base)
	noSelf, noHub := len(weblink.Find(links, relSelf)) == 0, len(weblink.Find(links, relHub)) == 0
	if !noSelf && !noHub {
		return links
	}
	// The links before the place where a document breaks off are good.
	embedded, _ := weblink.FromDocument(resp.Header.Get("Content-Type"), base, body)
	for _, l := range embedded {
		if noSelf && l.Has(relSelf) || noHub && l.Has(relHub) {
			links = append(links, l)
		}
	}
	return links
}

// judgeLinks returns a refusal unless the links name the topic itself, and nothing
// else, as rel=self, and this hub, perhaps among others, as rel=hub.
func judgeLinks(links []weblink.Link, at topic.Address, hub string) error {
	selves := weblink.Find(links, relSelf)
	if len(selves) == 0 {
		return &subscription.Refusal{Reason: "it shows no link with rel=self"}
	}
	for _, l := range selves {
		if l.URI != at.String() && !topic.Parse(l.URI).Same(at) {
			return &subscription.Refusal{Reason: "its link with rel=self names another address"}
		}
	}
	if !namesHub(links, hub) {
		return &subscription.Refusal{Reason: "none of its links with rel=hub names this hub"}
	}
	return nil
}
