package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// wellKnown is where a Source Description should be (core §6.3.2).
const wellKnown = "/.well-known/resourcesync"

// Discover finds what a Source offers, from any of these: its Source Description, or an
// index of such; a Capability List; another document of it, which leads up (core §6.3.4); a
// resource, page or topic that links to its Capability List (rel=resourcesync, in the header
// or the head of the page, core §6.3.3); a site, whose description is looked for where it
// should be (core §6.3.2), else on its first page, else by the sitemaps of its robots.txt (core §6.3.4).
//
// A list, dump, archive or plain sitemap that leads to no Capability List is a Set of its own,
// which offers that document alone.
//
// What a Source names at hosts that are not trusted is left out, and logged: it would
// not be read. So is a Capability List that cannot be read, if others can; only what
// may pass, such as a *BusyError, ends the whole. ErrNone: there is nothing of the kind.
func (c *Client) Discover(ctx context.Context, start string) ([]Set, error) {
	r, at, err := c.begin(start)
	if err != nil {
		return nil, err
	}
	d := &discovery{reading: r}
	isSite := at.Path == "" || at.Path == "/"
	if isSite {
		err := d.explore(ctx, at.ResolveReference(&url.URL{Path: wellKnown}))
		if err == nil && len(d.sets) > 0 || err != nil && !final(err) {
			return d.sets, err
		}
		d.sets, d.failed = nil, cmp.Or(d.failed, err)
	}
	err = d.explore(ctx, at)
	if err == nil && len(d.sets) > 0 {
		return d.sets, nil
	}
	if err != nil && !final(err) {
		return nil, err
	}
	if err == nil {
		err = fmt.Errorf(
			"%w: %s is neither a list of ResourceSync nor a sitemap, and links to none (rel=resourcesync, or up)",
			ErrNone, at,
		)
		if d.failed != nil {
			err = fmt.Errorf("%w; and %w", err, d.failed)
		}
	}
	if !isSite {
		root := at.ResolveReference(&url.URL{Path: "/"})
		return nil, fmt.Errorf(
			"%w; the site's own %s and robots.txt were not looked at: begin at %s for that", err, wellKnown, root,
		)
	}
	return d.byRobots(ctx, at, err)
}

// Final reports whether asking again would not help, as far as one can tell: the document is not there,
// is not what it should be, or leads where a Client does not go.
func Final(err error) bool { return final(err) }

func final(err error) bool {
	for _, is := range []error{
		ErrGone, ErrOtherHost, ErrLoop, ErrNone, ErrAnswer,
		payload.ErrSyntax, payload.ErrDoctype, payload.ErrEncoding, payload.ErrTooLarge, payload.ErrTooDeep,
		payload.ErrTooManyEntries, payload.ErrNotResourceSync,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// discovery is one call of Discover.
type discovery struct {
	*reading
	sets []Set
	// failed is why a part of what there is could not be read.
	failed error
}

// explore reads whatever is at an address, and what that leads to.
func (d *discovery) explore(ctx context.Context, at *url.URL) error {
	f, err := d.find(ctx, at)
	if err != nil {
		return err
	}
	switch f.head.Capability {
	case payload.CapDescription:
		return d.description(ctx, f, true)
	case payload.CapCapabilityList:
		if f.head.Root == payload.RootSitemapIndex { // there should be none (core §9)
			return d.each(ctx, f.uri, locs(f.entries), "")
		}
		return d.capabilities(f, "")
	}
	before := len(d.sets)
	if err := d.each(ctx, f.uri, f.linked, ""); err != nil || len(d.sets) > before {
		return err
	}
	return d.bare(f)
}

// bare takes a list that leads to no Capability List for a set of its own.
func (d *discovery) bare(f *found) error {
	if f.head.Root == "" {
		return nil // no document of the kind
	}
	s := Set{}
	to := s.offered(cmp.Or(f.head.Capability, payload.CapResourceList))
	if to == nil {
		return fmt.Errorf(
			"%w: %s is a %q without a link to its Capability List (rel=up, core §6.2)", ErrNone,
			f.uri, legible.Cut(f.head.Capability),
		)
	}
	*to = f.uri.String()
	d.c.cfg.Logger.Warn(
		"a list leads to no Capability List (rel=up, core §6.2), and is taken by itself",
		"uri", legible.Cut(f.uri.String()),
	)
	return d.add(s)
}

// description reads a Source Description, or an index of such (core §8).
func (d *discovery) description(ctx context.Context, f *found, indexes bool) error {
	if f.head.Root != payload.RootSitemapIndex {
		return d.each(ctx, f.uri, locs(f.entries), f.uri.String())
	}
	if !indexes {
		return fmt.Errorf("%w: %s is an index within an index", ErrLoop, f.uri)
	}
	for _, e := range f.entries {
		if err := d.skip(f.uri, e.Loc, func(at *url.URL) error {
			part, err := d.find(ctx, at)
			if err != nil {
				return err
			}
			return d.description(ctx, part, false)
		}); err != nil {
			return err
		}
	}
	return nil
}

func locs(entries []payload.Entry) (uris []string) {
	for _, e := range entries {
		if e.Capability == "" || e.Capability == payload.CapCapabilityList {
			uris = append(uris, e.Loc)
		}
	}
	return uris
}

// each reads Capability Lists.
func (d *discovery) each(ctx context.Context, from *url.URL, uris []string, description string) error {
	for _, uri := range uris {
		if err := d.skip(from, uri, func(at *url.URL) error {
			f, err := d.find(ctx, at)
			if err != nil {
				return err
			}
			return d.capabilities(f, description)
		}); err != nil {
			return err
		}
	}
	return nil
}

// skip calls read with where a document leads, once, and passes over what is final: the rest
// may be good.
func (d *discovery) skip(from *url.URL, ref string, read func(at *url.URL) error) error {
	at, err := d.lead(from, ref)
	if err == nil {
		if d.seen[at.String()] {
			return nil
		}
		err = read(at)
	}
	if err == nil || !final(err) || errors.Is(err, ErrLoop) {
		return err
	}
	d.c.cfg.Logger.Warn(
		"left out of what the Source offers", "uri", legible.Cut(ref), "reason", legible.Cut(err.Error()),
	)
	if d.failed == nil {
		d.failed = err
	}
	return nil
}

// capabilities adds the set of a Capability List.
func (d *discovery) capabilities(f *found, description string) error {
	set, err := d.set(f)
	if err != nil {
		return err
	}
	if description != "" {
		set.Description = description
	}
	return d.add(set)
}

func (d *discovery) add(set Set) error {
	if len(d.sets) == d.c.cfg.Limits.Sets {
		return fmt.Errorf(
			"%w: more than %d sets of resources; begin at the Capability List of one", ErrLoop, len(d.sets),
		)
	}
	d.sets = append(d.sets, set)
	return nil
}

// capabilityList reads the Capability List at an address.
func (r *reading) capabilityList(ctx context.Context, at *url.URL) (Set, error) {
	f, err := r.find(ctx, at)
	if err != nil {
		return Set{}, err
	}
	return r.set(f)
}

// set reads what a Capability List offers (core §9, CN §5).
func (r *reading) set(f *found) (Set, error) {
	if f.head.Capability != payload.CapCapabilityList || f.head.Root != payload.RootURLSet {
		return Set{}, fmt.Errorf("%w: %s is no Capability List", ErrAnswer, f.uri)
	}
	s := Set{CapabilityList: f.uri.String()}
	if up := upOf(f.head); up != "" {
		s.Description = absolute(f.uri, up)
	}
	for i := range f.entries {
		e := &f.entries[i]
		if to := s.offered(e.Capability); to != nil {
			r.offer(to, f, e)
		} else if e.Capability == payload.ChangeNotification && s.Topic == "" {
			s.Topic, s.Hubs = absolute(f.uri, e.Loc), hubs(f.uri, e.Links)
		}
	}
	return s, nil
}

// offer takes the address of a capability; of several entries for one the first counts (core §9), and the log
// names the others.
func (r *reading) offer(to *string, f *found, e *payload.Entry) {
	if *to != "" {
		r.c.cfg.Logger.Warn("a Capability List names several lists of one kind (core §9); only the first is read",
			"uri", legible.Cut(f.uri.String()), "capability", legible.Cut(e.Capability), "read", legible.Cut(*to), "not_read", legible.Cut(e.Loc))
		return
	}
	at, err := r.lead(f.uri, e.Loc)
	if err != nil {
		r.c.cfg.Logger.Warn(
			"left out of what the Source offers", "uri", legible.Cut(e.Loc), "reason", legible.Cut(err.Error()),
		)
		return
	}
	*to = at.String()
}

func hubs(base *url.URL, links []payload.Link) (uris []string) {
	for _, l := range links {
		if uri := absolute(base, l.Href); l.Rel == "hub" && uri != "" && !slices.Contains(uris, uri) {
			uris = append(uris, uri)
		}
	}
	return uris
}

// absolute is what ref means in the document at base: ref to the byte, unless it is
// relative; empty if it is no http or https URI.
func absolute(base *url.URL, ref string) string {
	u, err := base.Parse(ref)
	switch given, _ := url.Parse(ref); {
	case err != nil || !fetch.Web(u):
		return ""
	case given.IsAbs():
		return ref
	}
	return u.String()
}

func upOf(h payload.Header) string { return linkOf(h.Links, "up") }

// found is what an address turned out to be.
type found struct {
	uri  *url.URL
	head payload.Header // empty if it is no document of ResourceSync
	// entries are those of a document that lists others.
	entries []payload.Entry
	// linked are the Capability Lists that it links to.
	linked []string
}
