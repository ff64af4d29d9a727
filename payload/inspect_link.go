package payload

import (
	"fmt"
	"strings"
)

// judgeLinks judges the links of the document.
func (i *Inspector) judgeLinks(links []Link) {
	for n := range links {
		i.judgeLinkFields(&links[n], n, oddHeadLink)
	}
	ups := countRel(links, RelUp)
	if i.kind == nil {
		return
	}
	switch {
	case ups == 0 && i.capability != CapDescription && !i.isNotification():
		i.note(oddUp, i.clause(), "rs:ln[@rel='up']", "the link with rel=up is missing")
	case ups > 1:
		i.note(oddUps, clauseCore, "rs:ln[@rel='up']",
			"rel=up is there %d times: it is unknown which counts", ups)
	}
	if countRel(links, RelIndex) > 0 && (i.index || i.kind.index == "") {
		i.note(oddHeadRelation, clauseCore, "rs:ln[@rel='index']",
			"rel=index leads from a part to its index; this document is no such part")
	}
	if countRel(links, RelArchives) > 0 && i.kind.lists == documents {
		i.note(oddHeadRelation, "archives §2.2", "rs:ln[@rel='archives']",
			"rel=archives leads to an archive; this document is one")
	}
	if i.kind.lists == capabilities && !i.index && countRel(links, RelDescribedBy) == 0 {
		i.note(oddDescribedBy, i.clause(), "rs:ln[@rel='describedby']",
			"the recommended link with rel=describedby is missing")
	}
}

// judgeLinkFields judges the attributes of a link, whatever its relation.
func (i *Inspector) judgeLinkFields(l *Link, n int, k oddity) {
	if l.isPlain() {
		return
	}
	err := l.validateFields()
	if err == nil {
		if !isRegistered(l.Rel) {
			i.note(oddRelation, clauseCore, linkElement(n, "rel"),
				"%.60q is no URI, and no relation that this program knows from IANA's registry",
				l.Rel)
		}
		return
	}
	if err.Reason == unknownAlgorithm {
		k = oddLinkHashAlgorithm
	}
	what := ""
	if i.now.entry == 0 {
		what = " (of the document)"
	}
	i.note(k, clauseCore, linkElement(n, err.Field), "ln[%d].%v%s", n, err, what)
}

// isPlain reports whether a link obviously breaks no rule of its attributes. It misses some.
func (l *Link) isPlain() bool {
	_, known := registered[l.Rel]
	web, _ := webURI(l.Href)
	return known && web && len(l.Href)+len(l.Hash)+len(l.Length)+len(l.Type) <= MaxFieldChars &&
		(l.Hash == "" || isHash(l.Hash)) && (l.Length == "" || lengthRule(l.Length) == "") &&
		(l.Type == "" || isMediaType(l.Type)) && (l.Modified == "" || isSecond(l.Modified)) &&
		l.Encoding == "" && l.Path == "" && l.Pri == ""
}

func linkElement(n int, attribute string) string {
	return fmt.Sprintf("rs:ln[%d]/@%s", n+1,
		attribute)
}

// judgeEntryLinks judges the links of an entry (core §14).
func (i *Inspector) judgeEntryLinks(links []Link) {
	place := i.place()
	vias := 0
	for n := range links {
		l := &links[n]
		i.judgeLinkFields(l, n, oddLink)
		switch l.Rel {
		case RelPatch:
			i.judgePatch(l, n, place)
		case RelTimegate:
			if l.Hash+l.Length+l.Type+l.Encoding+l.Modified+l.Path+l.Pri != "" {
				i.note(oddTimegate, "core §14.6", fmt.Sprintf("rs:ln[%d]", n+1),
					"a timegate should have no attributes but rel and href")
			}
		case RelMemento:
			if l.Modified == "" {
				i.note(oddMemento, "core §14.6", linkElement(n, "modified"),
					"a memento should have modified, the time of that version")
			}
		case RelAlternate:
			if l.Type == "" {
				i.note(oddAlternate, "core §14.3", linkElement(n, "type"),
					"an alternate should have a type")
			}
		case RelDuplicate:
			if l.Hash+l.Length+l.Type+l.Encoding != "" {
				i.note(oddDuplicate, "core §14.2", fmt.Sprintf("rs:ln[%d]", n+1),
					"a duplicate should not repeat what rs:md says of the resource")
			}
		case RelVia:
			vias++
		case RelContents:
			if i.kind != nil && i.lists() != packages {
				i.note(oddContents, clauseCore, linkElement(n, "rel"),
					"rel=contents leads from a package to its manifest; this entry is no package")
			}
		}
		if l.Path != "" && l.Rel != RelPatch && i.kind != nil && !place.packaged() {
			i.note(oddLinkPath, clauseCore, linkElement(n, "path"),
				"path is used in dump manifests only")
		}
	}
	if vias > 1 {
		i.note(oddVias, "core §14.8", "rs:ln[@rel='via']",
			"rel=via is there %d times; it should lead to the original Source only", vias)
	}
	if i.lists() == packages && countRel(links, RelContents) > 1 {
		i.note(oddContents, clauseCore, "rs:ln[@rel='contents']",
			"rel=contents is there several times: a package has one manifest")
	}
}

// judgePatch judges a link with rel=patch (core §14.4).
func (i *Inspector) judgePatch(l *Link, n int, p place) {
	const clause = "core §14.4"
	switch {
	case i.kind != nil && !p.tellsChanges():
		i.note(oddPatch, clause, linkElement(n, "rel"), "a patch is used for changes only")
		return
	case l.Type == "":
		i.note(oddPatchType, clause, linkElement(n, "type"), "a patch must have a type")
	}
	switch {
	case p == ofPackagedChange && l.Path == "":
		i.note(oddPatchPath, clause, linkElement(n, "path"),
			"a patch in a Change Dump Manifest must have a path")
	case p != ofPackagedChange && l.Path != "" && i.kind != nil:
		i.note(oddLinkPath, clauseCore, linkElement(n, "path"),
			"path is used in dump manifests only")
	}
}

// isZIP reports whether a media type is that of ZIP files.
func isZIP(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/zip", "application/x-zip-compressed":
		return true
	}
	return false
}
