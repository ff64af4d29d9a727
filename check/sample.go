package check

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/payload"
)

// reservoir keeps a random sample of what it is offered, each with the same chance.
type reservoir[T any] struct {
	size, offered int
	kept          []T
}

// slot returns where the next one offered is to be kept, or -1.
func (r *reservoir[T]) slot() int {
	r.offered++
	if len(r.kept) < r.size {
		var none T
		r.kept = append(r.kept, none)
		return len(r.kept) - 1
	}
	if r.size == 0 {
		return -1
	}
	if n := rand.IntN(r.offered); n < r.size {
		return n
	}
	return -1
}

// sampled is a resource, or a change of one, that was chosen.
type sampled struct {
	d *document
	listed
}

// samples are resources, and changes with links, that are compared with what is said of them.
type samples struct {
	*visitor
	*round
	resources, changes reservoir[sampled]
}

func newSamples(v *visitor, rd *round) *samples {
	size := v.cfg.Sample
	return &samples{v, rd, reservoir[sampled]{size: size}, reservoir[sampled]{size: size}}
}

// forget drops what documents have offered.
func (sm *samples) forget(changed map[*document]bool) {
	for _, r := range []*reservoir[sampled]{&sm.resources, &sm.changes} {
		r.kept = slices.DeleteFunc(r.kept, func(s sampled) bool { return changed[s.d] })
	}
}

// offer offers an entry of a live document to the samples: resources, and changes whose links
// are of interest.
func (sm *samples) offer(d *document, e *payload.Entry) {
	to := &sm.resources
	switch {
	case d.is(payload.CapResourceList):
	case d.is(payload.CapChangeList) && len(e.Links) > 0 && e.Change != payload.Deleted:
		to = &sm.changes
	default:
		return
	}
	if n := to.slot(); n >= 0 {
		to.kept[n] = sampled{d, listed{*cloned(e), d.count}}
	}
}

// compareAll fetches the resources that were chosen, and compares them with what is said
// of them.
func (sm *samples) compareAll(ctx context.Context) {
	for i := range sm.resources.kept {
		s := &sm.resources.kept[i]
		if !s.d.whole || !sm.isRead(s.d) {
			continue // which was reported, or it was replaced
		}
		sm.compare(ctx, s)
		sm.lookAtLinks(ctx, s)
	}
	for i := range sm.changes.kept {
		if s := &sm.changes.kept[i]; sm.isRead(s.d) {
			sm.lookAtLinks(ctx, s)
		}
	}
}

// fetched is a representation as it was served.
type fetched struct {
	status int
	last   time.Time // Last-Modified
	differ []difference
}

// compare fetches a resource of a Resource List.
func (sm *samples) compare(ctx context.Context, s *sampled) {
	to := s.d.resolve(s.Loc)
	if to == nil {
		return
	}
	got, err := sm.fetch(ctx, to, claim{s.Length, s.Hash, s.Type, s.Encoding})
	if err != nil {
		if !sm.limited(err, s.d.of(&s.listed, "/loc"), to) {
			sm.report(ruleResourceThere, s.d.of(&s.listed, "/loc"), s.d, "list what can be fetched",
				"the resource %s cannot be fetched: %s", quote(s.Loc), reason(err))
		}
		return
	}
	sm.sum.Resources++
	if sm.hasChanged(s, got) {
		return
	}
	if got.status != http.StatusOK {
		sm.report(ruleResourceThere, s.d.of(&s.listed, "/loc"), s.d, "list what can be fetched",
			"the resource %s is answered %d %s", quote(s.Loc), got.status,
			http.StatusText(got.status))
		return
	}
	for _, is := range got.differ {
		sm.report(attributeRules[is.attribute], s.d.of(&s.listed, "/rs:md/@"+is.attribute), s.d,
			"list what is served, or make the list anew",
			"%s of %s is %s, and the served one has %s", is.attribute, quote(s.Loc), quote(is.told),
			quote(is.have))
	}
	if told := finite(s.LastMod); !told.IsZero() && !got.last.IsZero() && isComplete(s.LastMod) &&
		!told.Truncate(time.Second).Equal(got.last) {
		sm.report(ruleResourceLastMod, s.d.of(&s.listed, "/lastmod"), s.d,
			"write the resource's own Last-Modified",
			"lastmod of %s is %s, and its Last-Modified is %s", quote(s.Loc), quote(s.LastMod),
			written(got.last))
	}
}

// attributeRules are the rules of the attributes of representations.
var attributeRules = map[string]ruleID{
	"length": ruleResourceLength, "hash": ruleResourceHash, "type": ruleResourceType,
	"encoding": ruleResourceEncoding,
}

// hasChanged reports whether a resource may be another since its Resource List was made: it was
// modified since, or a Change List has a change of it.
func (sm *samples) hasChanged(s *sampled, got *fetched) bool {
	if at := s.d.head.AtTime; at.IsZero() || got.last.After(at) {
		return true
	}
	set := sm.setAt(s.d.set)
	if set == nil {
		return false
	}
	_, changed := set.changes.where[s.Loc]
	return changed
}

// fetch asks for a representation, and compares it with what is said of it.
func (sm *samples) fetch(ctx context.Context, at *url.URL, told claim) (*fetched, error) {
	a, err := sm.getAs(ctx, http.MethodGet, at, sm.cfg.Limits.Time, cmp.Or(told.encoding, "identity"))
	if err != nil {
		return nil, err
	}
	defer a.close()
	got := &fetched{status: a.status}
	got.last, _ = http.ParseTime(a.header.Get("Last-Modified"))
	if a.status != http.StatusOK {
		return got, nil
	}
	if _, got.differ, err = told.compare(io.Discard, a); err != nil {
		return nil, err
	}
	if have := a.header.Get("Content-Encoding"); told.encoding != "" &&
		!strings.EqualFold(told.encoding, have) {
		got.differ = append(got.differ, difference{"encoding", told.encoding, have})
	}
	return got, nil
}

// linkRules are the rules of what links of entries lead to (core 14).
var linkRules = map[string]ruleID{
	payload.RelDuplicate: ruleDuplicate, payload.RelAlternate: ruleAlternate,
	payload.RelCanonical: ruleCanonical,
	payload.RelPatch:     rulePatch, payload.RelDescribedBy: ruleDescribedBy,
	payload.RelDescribes: ruleDescribedBy,
	payload.RelMemento:   ruleMemento, payload.RelTimegate: ruleMemento,
	payload.RelTimemap:    ruleMemento,
	payload.RelCollection: ruleCollection, payload.RelVia: ruleVia,
}

// comparedRels are the relations whose targets are fetched and compared with the link.
var comparedRels = []string{
	payload.RelDuplicate, payload.RelAlternate, payload.RelCanonical,
	payload.RelPatch,
}

// lookAtLinks looks at the targets of an entry's links.
func (sm *samples) lookAtLinks(ctx context.Context, s *sampled) {
	for i := range s.Links {
		link := &s.Links[i]
		rule, known := linkRules[link.Rel]
		to := s.d.resolve(link.Href)
		if !known || to == nil {
			continue
		}
		at := s.d.of(&s.listed, fmt.Sprintf("/rs:ln[%d]", i+1))
		told := claim{link.Length, link.Hash, link.Type, link.Encoding}
		if link.Rel == payload.RelDuplicate { // the resource's description holds for it too (core 14.2)
			told.length, told.hash = cmp.Or(told.length, s.Length), cmp.Or(told.hash, s.Hash)
		}
		got, err := sm.lookAtLink(ctx, link.Rel, to, told)
		switch {
		case err != nil && !sm.limited(err, at, to):
			sm.report(rule, at, s.d, "link to what is there",
				"the target of rel=%s, %s, cannot be fetched: %s", quote(link.Rel),
				quote(link.Href), reason(err))
		case err != nil:
		case got.status/100 != 2 && got.status/100 != 3:
			sm.report(rule, at, s.d, "link to what is there",
				"the target of rel=%s, %s, is answered %d %s", quote(link.Rel), quote(link.Href),
				got.status, http.StatusText(got.status))
		default:
			for _, is := range got.differ {
				sm.report(rule, at, s.d, "say what is served",
					"%s of the target of rel=%s is %s, and the served one has %s",
					is.attribute, quote(link.Rel), quote(is.told), quote(is.have))
			}
		}
	}
}

func (sm *samples) lookAtLink(ctx context.Context, rel string, to *url.URL, told claim) (*fetched,
	error,
) {
	if slices.Contains(comparedRels, rel) {
		return sm.fetch(ctx, to, told)
	}
	a, err := sm.get(ctx, http.MethodHead, to, sm.cfg.Limits.Answer)
	if err != nil {
		return nil, err
	}
	a.close()
	return &fetched{status: a.status}, nil
}
