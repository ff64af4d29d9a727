package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"

	"carillon/internal/digests"
	"carillon/internal/unpack"
	"carillon/payload"
)

// packaged is what the walk remembers of a package.
type packaged struct {
	told      claim // of the dump
	isZIP     bool
	mediaType string
	length    int64
	// differ is what the dump says of the package otherwise than it is.
	differ []difference
	// manifest is its manifest.xml, nil if it could not be read.
	manifest *document
}

// claim is what a dump says of the package that it leads to.
func (l *lead) claim() claim {
	if l.role != rolePackage || l.entry == nil {
		return claim{}
	}
	return claim{length: l.entry.Length, hash: l.entry.Hash, mediaType: l.entry.Type}
}

// readPackage reads a package into a temporary file, compares it with what the dump says of it,
// and judges what is in it.
func (w *walk) readPackage(ctx context.Context, d *document, a *answer, l *lead) {
	p := &packaged{mediaType: a.header.Get("Content-Type"), told: l.claim()}
	d.pack = p
	file, err := os.CreateTemp(w.cfg.Dir, "carillon-check-")
	if err == nil {
		// What has no name is gone with the process, however that ends. Where an open file
		// cannot be removed, it is when it is closed.
		_ = os.Remove(file.Name())
		defer os.Remove(file.Name())
		defer file.Close()
		p.isZIP = a.isPackage()
		err = p.take(file, a)
	}
	var own *fs.PathError
	switch {
	case err != nil && w.limited(err, d.place(""), d.base):
		d.broken = true
		return
	case errors.As(err, &own) && (file == nil || own.Path == file.Name()): // not the Source's fault
		d.err = fmt.Errorf("%w: %w", errNoFile, err)
		return
	case err != nil:
		d.broken = true
		w.report(rulePackageThere, d.place(""), w.dumpOf(d, l), "serve it whole",
			"it cannot be read: %s", reason(err))
		return
	case !p.isZIP:
		d.broken = true
		return // another format: judged beside the other packages
	}
	zip, err := unpack.Open(file, p.length, unpack.Limits{Bytes: math.MaxInt64, EntryBytes: math.MaxInt64}) // expanded bounds both
	if err != nil {
		d.broken = true
		w.report(rulePackageSafe, d.place(""), w.dumpOf(d, l), "make the package anew", "%s",
			reason(err))
		return
	}
	w.sum.Packages++
	w.judgeZIP(ctx, d, zip, l)
}

// dumpOf is the document whose clause a finding of a package has: its dump, or for a
// file its manifest.
func (w *walk) dumpOf(d *document, l *lead) *document {
	switch {
	case d.pack.manifest != nil:
		return d.pack.manifest
	case l.from == nil:
		return &document{head: payload.Header{Capability: payload.CapResourceDumpManifest}}
	}
	return &document{head: payload.Header{Capability: payload.ManifestOf(l.from.head.Capability)}}
}

// take copies a package into a file, and notes what is otherwise than told.
func (p *packaged) take(file io.Writer, a *answer) error {
	told := p.told
	known, _ := digests.Parse(told.hash)
	sums := digests.New(known)
	n, err := io.Copy(io.MultiWriter(file, sums), a.body)
	p.length = n
	if err != nil {
		return err
	}
	if length, err := strconv.ParseInt(told.length, 10, 64); err == nil && length != n {
		p.differ = append(p.differ, difference{"length", told.length, strconv.FormatInt(n, 10)})
	}
	if wrong, have, is := sums.Differs(known); is {
		p.differ = append(p.differ,
			difference{"hash", wrong.Algorithm + ":" + wrong.Hex, wrong.Algorithm + ":" + have})
	}
	if told.mediaType != "" && p.mediaType != "" &&
		mediaTypeOf(told.mediaType) != mediaTypeOf(p.mediaType) {
		p.differ = append(p.differ, difference{"type", told.mediaType, p.mediaType})
	}
	return nil
}

// judgePackage judges what a dump says of a package (core 11.1, 13.1).
func (w *walk) judgePackage(l *lead, d *document) {
	p := d.pack
	if p == nil {
		return
	}
	for _, is := range p.differ {
		w.report(packageRules[is.attribute], l.from.of(l.entry, "/rs:md/@"+is.attribute), l.from,
			"list what is served",
			"%s of the package %s is %s, and the served one has %s", is.attribute, quote(d.uri),
			quote(is.told), quote(is.have))
	}
	if !p.isZIP {
		w.report(rulePackageZIP, l.at, l.from, "make packages ZIP files",
			"the package %s is no ZIP file (%s); what is in it was not looked at", quote(d.uri),
			quote(p.mediaType))
		return
	}
	if l.entry.Type != "" && mediaTypeOf(l.entry.Type) != "application/zip" {
		w.report(rulePackageType, l.from.of(l.entry, "/rs:md/@type"), l.from,
			"write application/zip", "its type is %s, and it is a ZIP file", quote(l.entry.Type))
	}
	w.judgeLastMod(l, d, ruleLastMod)
	if m := p.manifest; m != nil && m.known {
		w.judgeManifestOf(l, m)
	}
}

// packageRules are the rules of what a dump says of a package.
var packageRules = map[string]ruleID{
	"length": rulePackageLength, "hash": rulePackageHash,
	"type": rulePackageType,
}

// judgeManifestOf: the manifest of a package has the capability of its dump, and its times.
func (w *walk) judgeManifestOf(l *lead, m *document) {
	if want := payload.ManifestOf(l.from.head.Capability); m.head.Capability != want {
		w.breaks(l.set)
		w.report(ruleManifestIs, m.place(""), &document{head: payload.Header{Capability: want}},
			"write capability="+want,
			"the manifest of a package of a %s is a %s", kindOf(l.from.head.Capability, false),
			kindOf(m.head.Capability, m.isIndex()))
		return
	}
	w.judgeTimes(l, m, rulePackageTimes)
	if up, own := l.from.link(payload.RelUp), m.link(payload.RelUp); up != nil && own != nil {
		if a, b := l.from.resolve(up.Href), m.resolve(own.Href); a != nil && b != nil {
			if !w.isSame(a, b) {
				w.report(ruleManifestUp, m.place("rs:ln[@rel='up']"), m,
					"link to the Capability List that the dump links to",
					"its link with rel=up is %s, and that of the dump %s", quote(own.Href),
					quote(up.Href))
			}
		}
	}
}

// judgeContents: the copy of a manifest is the one in the package (core 11.1, 13.1).
func (w *walk) judgeContents(l *lead, d *document) {
	if want := payload.ManifestOf(l.from.head.Capability); d.known && d.head.Capability != want {
		w.report(ruleContentsIs, l.at, l.from, "link to the copy of the package's manifest",
			"%s is a %s", w.says(l), kindOf(d.head.Capability, d.isIndex()))
		return
	}
	if !d.whole {
		return
	}
	w.judgeContentsLink(l, d)
	to := l.from.resolve(l.entry.Loc)
	if to == nil {
		return
	}
	pack := w.seen[to.String()]
	if pack == nil || pack.pack == nil || pack.pack.manifest == nil || !pack.pack.manifest.whole {
		return
	}
	if pack.pack.manifest.sum != d.sum {
		w.report(ruleContents, l.at, l.from, "serve the manifest of the package",
			"%s is not the manifest.xml in the package %s", quote(d.uri), quote(pack.uri))
	}
}

// judgeContentsLink: what a link with rel=contents says of its target is what is served (core 7).
// Of hashes SHA-256 is compared.
func (w *walk) judgeContentsLink(l *lead, d *document) {
	differs := func(attribute, told, have string) {
		w.report(ruleContentsAttributes, place{l.at.uri, l.at.line, l.at.element + "/@" + attribute},
			l.from, "say what is served", "%s of %s is %s, and the served one has %s", attribute,
			w.says(l), quote(told), quote(have))
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
func (w *walk) judgeFormats(dump *document) {
	zips, others := 0, 0
	for i := range dump.entries {
		to := dump.resolve(dump.entries[i].Loc)
		if to == nil {
			continue
		}
		if d := w.seen[to.String()]; d != nil && d.pack != nil && d.pack.length > 0 {
			if d.pack.isZIP {
				zips++
			} else {
				others++
			}
		}
	}
	if zips > 0 && others > 0 {
		w.report(ruleOneFormat, dump.place(""), dump, "pack all in one format",
			"%d packages are ZIP files, and %d are not", zips, others)
	}
}

// bitstream is what a manifest says of an entry of its package.
type bitstream struct {
	claim
	path string
	at   place
}

// judgeZIP judges a package by its manifest: each path is there, and is what is said of it
// (core 11.2, 13.2).
func (w *walk) judgeZIP(ctx context.Context, d *document, zip *unpack.Archive, l *lead) {
	manifest, err := zip.Manifest()
	if err != nil {
		d.broken = true
		w.report(ruleManifestThere, d.place(""), w.dumpOf(d, l),
			"put manifest.xml at the top level of the package", "%s", reason(err))
		return
	}
	defer manifest.Close()
	m := &document{
		uri: d.uri + "!/" + unpack.ManifestName, base: d.base, local: true,
		status: http.StatusOK,
	}
	d.pack.manifest = m
	w.documents = append(w.documents, m)
	bits, err := w.readManifest(m, w.expanded(manifest), l)
	if err != nil {
		d.broken = true
		if !w.limited(err, m.place(""), d.base) {
			w.unreadable(m, err)
		}
		return
	}
	w.expand(m, l)
	listed := map[string]bool{unpack.ManifestName: true}
	for i := range bits {
		if context.Cause(ctx) != nil {
			w.limited(context.Cause(ctx), m.place(""), d.base)
			return
		}
		if !w.judgeBitstream(m, zip, &bits[i], listed) {
			return
		}
	}
	unlisted := 0
	for e := range zip.Names() {
		if !listed[e.Name] && e.Name[len(e.Name)-1] != '/' {
			if unlisted++; unlisted == 1 {
				w.report(ruleUnlisted, m.place(""), m,
					"list each bitstream, or leave it out of the package",
					"the package has %s, and no url with that path", quote(e.Name))
			}
		}
	}
}

// maxBitstreams is how many entries of a manifest are compared.
const maxBitstreams = payload.MaxEntries

// readManifest reads the manifest of a package as any document, and returns what it says of
// each bitstream.
func (w *walk) readManifest(m *document, from io.Reader, l *lead) (bits []bitstream, err error) {
	digest := sha256.New()
	r := payload.NewReader(io.TeeReader(from, digest), payload.Limits{})
	if m.head, err = r.Header(); err != nil {
		return nil, err
	}
	w.sum.Documents++
	m.known = true
	m.set = setOf(m, l)
	odd := payload.NewInspector("")
	err = w.readEntries(m, l, r, odd, func(e *payload.Entry) {
		w.addBitstreams(m, e, &bits)
	})
	m.sum = hex.EncodeToString(digest.Sum(nil))
	w.inspected(m, odd.Violations())
	m.whole = err == nil
	return bits, err
}

// addBitstreams notes what an entry of a manifest says of bitstreams: of the resource, and of
// patches (core 14.4).
func (w *walk) addBitstreams(m *document, e *payload.Entry, bits *[]bitstream) {
	if len(*bits) >= maxBitstreams {
		return
	}
	at := &listed{*cloned(e), m.count}
	if e.Path != "" {
		*bits = append(*bits, bitstream{
			claim{length: at.Length, hash: at.Hash},
			at.Path,
			m.of(at, "/rs:md/@path"),
		})
	}
	for i := range at.Links {
		if link := &at.Links[i]; link.Path != "" {
			*bits = append(*bits, bitstream{
				claim{length: link.Length, hash: link.Hash},
				link.Path,
				m.of(at, fmt.Sprintf("/rs:ln[%d]/@path", i+1)),
			})
		}
	}
}

// judgeBitstream compares one bitstream with what the manifest says of it. It reports false where
// a limit keeps it from that.
func (w *walk) judgeBitstream(m *document, zip *unpack.Archive, b *bitstream,
	listed map[string]bool,
) bool {
	content, err := zip.Open(b.path)
	if err != nil {
		w.report(rulePathThere, b.at, m, "put it into the package, or take the url away",
			"%s cannot be read from the package: %s", quote(b.path), reason(err))
		return true
	}
	defer content.Close()
	listed[strings.TrimLeft(b.path, "/")] = true
	known, _ := digests.Parse(b.hash)
	sums := digests.New(known)
	n, err := io.Copy(sums, w.expanded(content))
	if err != nil {
		if w.limited(err, b.at, m.base) {
			return false
		}
		w.report(rulePackageSafe, b.at, m, "make the package anew",
			"%s cannot be read from the package: %s", quote(b.path), reason(err))
		return true
	}
	if length, err := strconv.ParseInt(b.length, 10, 64); err == nil && length != n {
		w.report(ruleBitstreamLength, b.at, m, "write what the package has",
			"length of %s is %s, and in the package it has %d bytes", quote(b.path), b.length, n)
	}
	if wrong, have, is := sums.Differs(known); is {
		w.report(ruleBitstreamHash, b.at, m, "write what the package has",
			"hash of %s is %s:%s, and in the package it is %s", quote(b.path), wrong.Algorithm,
			wrong.Hex, have)
	}
	return true
}
