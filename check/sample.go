package check

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/internal/digests"
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

// offer offers an entry of a live document to the samples: resources, and changes whose links
// are of interest.
func (w *walk) offer(d *document, e *payload.Entry) {
	to := &w.sample
	switch {
	case d.is(payload.CapResourceList):
	case d.is(payload.CapChangeList) && len(e.Links) > 0 && e.Change != payload.Deleted:
		to = &w.changes
	default:
		return
	}
	if n := to.slot(); n >= 0 {
		to.kept[n] = sampled{d, listed{*cloned(e), d.count}}
	}
}

// sampleResources fetches the resources that were chosen, and compares them with what is said
// of them.
func (w *walk) sampleResources(ctx context.Context) {
	for i := range w.sample.kept {
		s := &w.sample.kept[i]
		if !s.d.whole || !w.isSampled(s) {
			continue // which was reported, or it was replaced
		}
		w.compare(ctx, s)
		w.lookAtLinks(ctx, s)
	}
	for i := range w.changes.kept {
		if s := &w.changes.kept[i]; w.isSampled(s) {
			w.lookAtLinks(ctx, s)
		}
	}
}

// claim is what an entry, or a link of one, says of a representation.
type claim struct{ length, hash, mediaType, encoding string }

// fetched is a representation as it was served.
type fetched struct {
	status int
	last   time.Time // Last-Modified
	differ []difference
}

// difference is one attribute that is not what was served.
type difference struct{ attribute, told, have string }

// compare fetches a resource of a Resource List.
func (w *walk) compare(ctx context.Context, s *sampled) {
	to := s.d.resolve(s.Loc)
	if to == nil {
		return
	}
	got, err := w.fetch(ctx, to, claim{s.Length, s.Hash, s.Type, s.Encoding})
	if err != nil {
		if !w.limited(err, s.d.of(&s.listed, "/loc"), to) {
			w.report(ruleResourceThere, s.d.of(&s.listed, "/loc"), s.d, "list what can be fetched",
				"the resource %s cannot be fetched: %s", quote(s.Loc), reason(err))
		}
		return
	}
	w.sum.Resources++
	if w.hasChanged(s, got) {
		return
	}
	if got.status != http.StatusOK {
		w.report(ruleResourceThere, s.d.of(&s.listed, "/loc"), s.d, "list what can be fetched",
			"the resource %s is answered %d %s", quote(s.Loc), got.status,
			http.StatusText(got.status))
		return
	}
	for _, is := range got.differ {
		w.report(attributeRules[is.attribute], s.d.of(&s.listed, "/rs:md/@"+is.attribute), s.d,
			"list what is served, or make the list anew",
			"%s of %s is %s, and the served one has %s", is.attribute, quote(s.Loc), quote(is.told),
			quote(is.have))
	}
	if told := finite(s.LastMod); !told.IsZero() && !got.last.IsZero() && isComplete(s.LastMod) &&
		!told.Truncate(time.Second).Equal(got.last) {
		w.report(ruleResourceLastMod, s.d.of(&s.listed, "/lastmod"), s.d,
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
func (w *walk) hasChanged(s *sampled, got *fetched) bool {
	if at := s.d.head.AtTime; at.IsZero() || got.last.After(at) {
		return true
	}
	set := w.setAt(s.d.set)
	if set == nil {
		return false
	}
	_, changed := set.changes.where[s.Loc]
	return changed
}

// fetch asks for a representation, and compares it with what is said of it.
func (w *walk) fetch(ctx context.Context, at *url.URL, told claim) (*fetched, error) {
	a, err := w.getAs(ctx, http.MethodGet, at, w.cfg.Limits.Time, cmp.Or(told.encoding, "identity"))
	if err != nil {
		return nil, err
	}
	defer a.close()
	got := &fetched{status: a.status}
	got.last, _ = http.ParseTime(a.header.Get("Last-Modified"))
	if a.status != http.StatusOK {
		return got, nil
	}
	known, _ := digests.Parse(told.hash)
	sums := digests.New(known)
	n, err := io.Copy(sums, a.body)
	if err != nil {
		return nil, err
	}
	differs := func(attribute, told, have string) {
		got.differ = append(got.differ, difference{attribute, told, have})
	}
	if length, err := strconv.ParseInt(told.length, 10, 64); err == nil && length != n {
		differs("length", told.length, strconv.FormatInt(n, 10))
	}
	if wrong, have, is := sums.Differs(known); is {
		differs("hash", wrong.Algorithm+":"+wrong.Hex, wrong.Algorithm+":"+have)
	}
	if have := a.header.Get("Content-Type"); told.mediaType != "" && have != "" &&
		mediaTypeOf(told.mediaType) != mediaTypeOf(have) {
		differs("type", told.mediaType, have)
	}
	if have := a.header.Get("Content-Encoding"); told.encoding != "" &&
		!strings.EqualFold(told.encoding, have) {
		differs("encoding", told.encoding, have)
	}
	return got, nil
}

func mediaTypeOf(told string) string {
	name, _, err := mime.ParseMediaType(told)
	if err != nil {
		return told
	}
	return name
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
func (w *walk) lookAtLinks(ctx context.Context, s *sampled) {
	for i := range s.Links {
		link := &s.Links[i]
		rule, known := linkRules[link.Rel]
		to := s.d.resolve(link.Href)
		if !known || to == nil {
			continue
		}
		at := s.d.of(&s.listed, fmt.Sprintf("/rs:ln[%d]", i+1))
		told := claim{link.Length, link.Hash, link.Type, link.Encoding}
		if link.Rel == payload.RelDuplicate { // what is said of the resource holds of it too (core 14.2)
			told.length, told.hash = cmp.Or(told.length, s.Length), cmp.Or(told.hash, s.Hash)
		}
		got, err := w.lookAtLink(ctx, link.Rel, to, told)
		switch {
		case err != nil && !w.limited(err, at, to):
			w.report(rule, at, s.d, "link to what is there",
				"the target of rel=%s, %s, cannot be fetched: %s", quote(link.Rel),
				quote(link.Href), reason(err))
		case err != nil:
		case got.status/100 != 2 && got.status/100 != 3:
			w.report(rule, at, s.d, "link to what is there",
				"the target of rel=%s, %s, is answered %d %s", quote(link.Rel), quote(link.Href),
				got.status, http.StatusText(got.status))
		default:
			for _, is := range got.differ {
				w.report(rule, at, s.d, "say what is served",
					"%s of the target of rel=%s is %s, and the served one has %s",
					is.attribute, quote(link.Rel), quote(is.told), quote(is.have))
			}
		}
	}
}

func (w *walk) lookAtLink(ctx context.Context, rel string, to *url.URL, told claim) (*fetched,
	error,
) {
	if slices.Contains(comparedRels, rel) {
		return w.fetch(ctx, to, told)
	}
	a, err := w.get(ctx, http.MethodHead, to, w.cfg.Limits.Answer)
	if err != nil {
		return nil, err
	}
	a.close()
	return &fetched{status: a.status}, nil
}
