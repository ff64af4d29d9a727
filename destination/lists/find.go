package lists

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"carillon/internal/weblink"
	"carillon/payload"
)

const (
	// maxHead is how much of an answer is looked at for links, bytes.
	maxHead = weblink.MaxDocument
	// maxLinked is how many Capability Lists a page may link to.
	maxLinked = 20
)

// find asks for whatever is at an address. Of what does not list documents only
// the head is read.
func (r *reading) find(ctx context.Context, at *url.URL) (*found, error) {
	a, err := r.get(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	r.seen[at.String()], r.seen[a.uri.String()] = true, true
	f := &found{uri: a.uri}
	start := &beginning{}
	known, err := r.document(f, io.TeeReader(a.body, start))
	if err != nil && (known || !final(err)) {
		return nil, fmt.Errorf("reading %s: %w", a.uri, err)
	}
	// Broken parts of the headers or of a page do not spoil the links before them.
	links, _ := weblink.Parse(a.header.Values("Link"))
	f.link(weblink.Resolve(a.uri.String(), links))
	switch {
	case len(f.linked) > 0:
	case known:
		if up := upOf(f.head); up != "" {
			f.linked = []string{up}
		}
	default:
		links, _ = weblink.FromDocument(a.header.Get("Content-Type"), a.uri.String(),
			io.MultiReader(start, a.body))
		f.link(links)
	}
	return f, nil
}

// beginning keeps the first bytes of what is read.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), maxHead-b.Len())])
	return len(p), nil
}

// link takes the Capability Lists that links lead to (core §6.3.3).
func (f *found) link(links []weblink.Link) {
	for _, l := range weblink.Find(links, "resourcesync") {
		if len(f.linked) < maxLinked {
			f.linked = append(f.linked, l.URI)
		}
	}
}

// document reads a document of ResourceSync; known: it is one, by its root element.
func (r *reading) document(f *found, body io.Reader) (known bool, err error) {
	xml := payload.NewReader(body,
		payload.Limits{Bytes: r.c.cfg.Limits.Bytes, Entries: r.c.cfg.Limits.Entries})
	head, err := xml.Header()
	if err != nil {
		return false, err
	}
	f.head = head
	if !listsOthers(head.Capability) && head.Capability != "" {
		return true, nil
	}
	odd := payload.NewInspector("")
	odd.Head(head)
	for {
		e, err := xml.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return true, err
		}
		odd.Entry(&e)
		f.entries = append(f.entries, e)
	}
	if f.head, err = xml.Header(); err != nil {
		return true, err
	}
	odd.End(f.head)
	if listsOthers(f.head.Capability) {
		r.c.warn(f.uri, odd.Violations()...)
	}
	return true, nil
}

func listsOthers(capability string) bool {
	return capability == payload.CapDescription || capability == payload.CapCapabilityList
}
