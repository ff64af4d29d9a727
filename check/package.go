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

// packageReader reads packages.
type packageReader struct {
	*reader
	*round
}

// readPackage reads a package into a temporary file, compares it with what the dump says of it,
// and judges what is in it.
func (pr *packageReader) readPackage(ctx context.Context, d *document, a *answer, l *lead) {
	p := &packaged{mediaType: a.header.Get("Content-Type"), told: l.claim()}
	d.pack = p
	file, err := os.CreateTemp(pr.cfg.Dir, "carillon-check-")
	if err == nil {
		// A file without a name is gone with the process, however that ends. Where an open file cannot be
		// removed, it is when it is closed.
		_ = os.Remove(file.Name())
		defer os.Remove(file.Name())
		defer file.Close()
		p.isZIP = a.isPackage()
		err = p.take(file, a)
	}
	var own *fs.PathError
	switch {
	case err != nil && pr.limited(err, d.place(""), d.base):
		d.broken = true
		return
	case errors.As(err, &own) && (file == nil || own.Path == file.Name()): // not the Source's fault
		d.err = fmt.Errorf("%w: %w", errNoFile, err)
		return
	case err != nil:
		d.broken = true
		pr.report(rulePackageThere, d.place(""), d.dumpOf(l), "serve it whole",
			"it cannot be read: %s", reason(err))
		return
	case !p.isZIP:
		d.broken = true
		return // another format: judged beside the other packages
	}
	zip, err := unpack.Open(
		file, p.length, unpack.Limits{Bytes: math.MaxInt64, EntryBytes: math.MaxInt64},
	) // expanded bounds both
	if err != nil {
		d.broken = true
		pr.report(rulePackageSafe, d.place(""), d.dumpOf(l), "make the package anew", "%s",
			reason(err))
		return
	}
	pr.sum.Packages++
	pr.judgeZIP(ctx, d, zip, l)
}

// take copies a package into a file, and records deviations from its description.
func (p *packaged) take(file io.Writer, a *answer) (err error) {
	p.length, p.differ, err = p.told.compare(file, a)
	return err
}

// bitstream is what a manifest says of an entry of its package.
type bitstream struct {
	claim
	path string
	at   place
}

// judgeZIP judges a package by its manifest: each path is there, and is what is said of it
// (core 11.2, 13.2).
func (pr *packageReader) judgeZIP(ctx context.Context, d *document, zip *unpack.Archive, l *lead) {
	manifest, err := zip.Manifest()
	if err != nil {
		d.broken = true
		pr.report(ruleManifestThere, d.place(""), d.dumpOf(l),
			"put manifest.xml at the top level of the package", "%s", reason(err))
		return
	}
	defer manifest.Close()
	m := &document{served: served{
		uri: d.uri + "!/" + unpack.ManifestName, base: d.base, local: true,
		status: http.StatusOK,
	}}
	d.pack.manifest = m
	pr.documents = append(pr.documents, m)
	bits, err := pr.readManifest(m, pr.expanded(manifest), l)
	if err != nil {
		d.broken = true
		if !pr.limited(err, m.place(""), d.base) {
			pr.unreadable(m, err)
		}
		return
	}
	listed := map[string]bool{unpack.ManifestName: true}
	for i := range bits {
		if context.Cause(ctx) != nil {
			pr.limited(context.Cause(ctx), m.place(""), d.base)
			return
		}
		if !pr.judgeBitstream(m, zip, &bits[i], listed) {
			return
		}
	}
	unlisted := 0
	for e := range zip.Names() {
		if !listed[e.Name] && e.Name[len(e.Name)-1] != '/' {
			if unlisted++; unlisted == 1 {
				pr.report(ruleUnlisted, m.place(""), m,
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
func (pr *packageReader) readManifest(m *document, from io.Reader, l *lead) (bits []bitstream, err error) {
	digest := sha256.New()
	r := payload.NewReader(io.TeeReader(from, digest), payload.Limits{})
	if m.head, err = r.Header(); err != nil {
		return nil, err
	}
	pr.sum.Documents++
	m.known = true
	m.set = setOf(m, l)
	odd := payload.NewInspector("")
	err = pr.readEntries(m, l, r, odd, func(e *payload.Entry) {
		addBitstreams(m, e, &bits)
	})
	m.sum = hex.EncodeToString(digest.Sum(nil))
	pr.inspected(m, odd.Violations())
	m.whole = err == nil
	return bits, err
}

// addBitstreams records what an entry of a manifest says of bitstreams: of the resource, and of
// patches (core 14.4).
func addBitstreams(m *document, e *payload.Entry, bits *[]bitstream) {
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
func (pr *packageReader) judgeBitstream(m *document, zip *unpack.Archive, b *bitstream,
	listed map[string]bool,
) bool {
	content, err := zip.Open(b.path)
	if err != nil {
		pr.report(rulePathThere, b.at, m, "put it into the package, or take the url away",
			"%s cannot be read from the package: %s", quote(b.path), reason(err))
		return true
	}
	defer content.Close()
	listed[strings.TrimLeft(b.path, "/")] = true
	known, _ := digests.Parse(b.hash)
	sums := digests.New(known)
	n, err := io.Copy(sums, pr.expanded(content))
	if err != nil {
		if pr.limited(err, b.at, m.base) {
			return false
		}
		pr.report(rulePackageSafe, b.at, m, "make the package anew",
			"%s cannot be read from the package: %s", quote(b.path), reason(err))
		return true
	}
	if length, err := strconv.ParseInt(b.length, 10, 64); err == nil && length != n {
		pr.report(ruleBitstreamLength, b.at, m, "write what the package has",
			"length of %s is %s, and in the package it has %d bytes", quote(b.path), b.length, n)
	}
	if wrong, have, is := sums.Differs(known); is {
		pr.report(ruleBitstreamHash, b.at, m, "write what the package has",
			"hash of %s is %s:%s, and in the package it is %s", quote(b.path), wrong.Algorithm,
			wrong.Hex, have)
	}
	return true
}
