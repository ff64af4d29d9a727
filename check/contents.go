package check

import (
	"strconv"

	"carillon/internal/digests"
	"carillon/payload"
)

// judgePackage judges what a dump says of a package (core 11.1, 13.1).
func (j *linkJudge) judgePackage(l *lead, d *document) {
	p := d.pack
	if p == nil {
		return
	}
	for _, is := range p.differ {
		j.report(packageRules[is.attribute], l.from.of(l.entry, "/rs:md/@"+is.attribute), l.from,
			"list what is served",
			"%s of the package %s is %s, and the served one has %s", is.attribute, quote(d.uri),
			quote(is.told), quote(is.have))
	}
	if !p.isZIP {
		j.report(rulePackageZIP, l.at, l.from, "make packages ZIP files",
			"the package %s is no ZIP file (%s); what is in it was not looked at", quote(d.uri),
			quote(p.mediaType))
		return
	}
	if l.entry.Type != "" && mediaTypeOf(l.entry.Type) != "application/zip" {
		j.report(rulePackageType, l.from.of(l.entry, "/rs:md/@type"), l.from,
			"write application/zip", "its type is %s, and it is a ZIP file", quote(l.entry.Type))
	}
	j.judgeLastMod(l, d, ruleLastMod)
	if m := p.manifest; m != nil && m.known {
		j.judgeManifestOf(l, m)
	}
}

// packageRules are the rules of what a dump says of a package.
var packageRules = map[string]ruleID{
	"length": rulePackageLength, "hash": rulePackageHash,
	"type": rulePackageType,
}

// judgeManifestOf: the manifest of a package has the capability of its dump, and its times.
func (j *linkJudge) judgeManifestOf(l *lead, m *document) {
	if want := payload.ManifestOf(l.from.head.Capability); m.head.Capability != want {
		j.breaks(l.set)
		j.report(ruleManifestIs, m.place(""), &document{head: payload.Header{Capability: want}},
			"write capability="+want,
			"the manifest of a package of a %s is a %s", kindOf(l.from.head.Capability, false),
			kindOf(m.head.Capability, m.isIndex()))
		return
	}
	j.judgeTimes(l, m, rulePackageTimes)
	if up, own := l.from.link(payload.RelUp), m.link(payload.RelUp); up != nil && own != nil {
		if a, b := l.from.resolve(up.Href), m.resolve(own.Href); a != nil && b != nil {
			if !j.isSame(a, b) {
				j.report(ruleManifestUp, m.place("rs:ln[@rel='up']"), m,
					"link to the Capability List that the dump links to",
					"its link with rel=up is %s, and that of the dump %s", quote(own.Href),
					quote(up.Href))
			}
		}
	}
}

// judgeContents: the copy of a manifest is the one in the package (core 11.1, 13.1).
func (j *linkJudge) judgeContents(l *lead, d *document) {
	if want := payload.ManifestOf(l.from.head.Capability); d.known && d.head.Capability != want {
		j.report(ruleContentsIs, l.at, l.from, "link to the copy of the package's manifest",
			"%s is a %s", l.says(), kindOf(d.head.Capability, d.isIndex()))
		return
	}
	if !d.whole {
		return
	}
	j.judgeContentsLink(l, d)
	to := l.from.resolve(l.entry.Loc)
	if to == nil {
		return
	}
	pack := j.seen[to.String()]
	if pack == nil || pack.pack == nil || pack.pack.manifest == nil || !pack.pack.manifest.whole {
		return
	}
	if pack.pack.manifest.sum != d.sum {
		j.report(ruleContents, l.at, l.from, "serve the manifest of the package",
			"%s is not the manifest.xml in the package %s", quote(d.uri), quote(pack.uri))
	}
}

// judgeContentsLink: the description in a link with rel=contents matches the served target (core 7).
// Of hashes SHA-256 is compared.
func (j *linkJudge) judgeContentsLink(l *lead, d *document) {
	differs := func(attribute, told, have string) {
		j.report(ruleContentsAttributes, place{l.at.uri, l.at.line, l.at.element + "/@" + attribute},
			l.from, "say what is served", "%s of %s is %s, and the served one has %s", attribute,
			l.says(), quote(told), quote(have))
	}
	if have := d.header.Get("Content-Type"); l.link.Type != "" && have != "" &&
		mediaTypeOf(l.link.Type) != mediaTypeOf(have) {
		differs("type", l.link.Type, have)
	}
	if d.gzipped {
		return // length and hash are of the gzip file
	}
	if length, err := strconv.ParseInt(l.link.Length, 10, 64); err == nil && length != d.length {
		differs("length", l.link.Length, strconv.FormatInt(d.length, 10))
	}
	if len(l.link.Hash) > payload.MaxFieldChars {
		return // the rules of documents report it
	}
	known, _ := digests.Parse(l.link.Hash)
	for _, k := range known {
		if k.Algorithm == "sha-256" && k.Hex != d.sum {
			differs("hash", k.Algorithm+":"+k.Hex, "sha-256:"+d.sum)
		}
	}
}

// judgeFormats: a dump has packages of one format (core 11.1, 13.1).
func (j *linkJudge) judgeFormats(dump *document) {
	zips, others := 0, 0
	for i := range dump.entries {
		to := dump.resolve(dump.entries[i].Loc)
		if to == nil {
			continue
		}
		if d := j.seen[to.String()]; d != nil && d.pack != nil && d.pack.length > 0 {
			if d.pack.isZIP {
				zips++
			} else {
				others++
			}
		}
	}
	if zips > 0 && others > 0 {
		j.report(ruleOneFormat, dump.place(""), dump, "pack all in one format",
			"%d packages are ZIP files, and %d are not", zips, others)
	}
}
