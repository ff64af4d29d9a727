package check

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
	"carillon/payload"
)

// document is what the walk remembers of what was at an address or in a file.
type document struct {
	served
	roles uint // a bit for each role that led here

	// known: it is a urlset or a sitemapindex of the sitemap namespace, and whole: it was
	// read to its end without a fault.
	known, whole bool
	head         payload.Header
	entries      []listed        // of documents that list others
	cut          bool            // there are more entries, which are not remembered
	listedAt     map[string]bool // see addresses
	count        int             // of entries
	content
	other     bool      // it is something that ResourceSync does not know
	pack      *packaged // of a package
	channelOf *document // the Capability List of which it is a topic
	set       string    // the address of its Capability List, empty for none
	// live: listings has what it lists, for the comparison with other capabilities.
	live     bool
	listings []listing
	broken   bool // not everything in it was read
	// kept and compared are its shares of those of the reader.
	kept, compared int
}

// served is how a document was answered.
type served struct {
	uri    string   // as it was asked for, or the name of the file
	base   *url.URL // after redirects; nil of a file
	local  bool
	status int
	header http.Header
	links  []weblink.Link
	err    error // why the request failed
}

// content are the bytes of a document. Of a gzip file they are the unpacked ones.
type content struct {
	sum     string // SHA-256
	length  int64
	gzipped bool
}

// listed is an entry of a document that lists others.
type listed struct {
	payload.Entry
	n int // from 1 on
}

// isIndex reports whether the document is an index.
func (d *document) isIndex() bool { return d.head.Root == payload.RootSitemapIndex }

// is reports whether the document has the capability.
func (d *document) is(capability string) bool { return d.known && d.head.Capability == capability }

// led reports whether a lead of the role has led here.
func (d *document) led(r role) bool { return d.roles>>r&1 == 1 }

// link returns the first link of the document itself with a relation.
func (d *document) link(rel string) *payload.Link {
	for i := range d.head.Links {
		if d.head.Links[i].Rel == rel && d.head.Links[i].Href != "" {
			return &d.head.Links[i]
		}
	}
	return nil
}

// resolve returns the absolute address of ref in the document, or nil if it is not http or https.
func (d *document) resolve(ref string) *url.URL {
	base := d.base
	if base == nil {
		base = &url.URL{}
	}
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil || !fetch.Web(u) {
		return nil
	}
	return plain(u)
}

// addresses are those that the entries of a document that lists others lead to. They are worked
// out once, as many ask.
func (d *document) addresses() map[string]bool {
	if d.listedAt == nil {
		d.listedAt = make(map[string]bool, len(d.entries))
		for i := range d.entries {
			if to := d.resolve(d.entries[i].Loc); to != nil {
				d.listedAt[to.String()] = true
			}
		}
	}
	return d.listedAt
}

// place is the document as a whole, or an element of its head.
func (d *document) place(element string) place { return place{d.uri, 0, element} }

// of is an element of an entry.
func (d *document) of(e *listed, element string) place {
	return place{d.uri, e.Line, nth(d.isIndex(), e.n) + element}
}

// modified is the answer's Last-Modified, zero where it has none.
func (d *document) modified() time.Time {
	at, _ := http.ParseTime(d.header.Get("Last-Modified"))
	return at
}

// readLinks reads the links of the answer's header.
func (d *document) readLinks() {
	if d.base == nil {
		return
	}
	links, _ := weblink.Parse(d.header.Values("Link"))
	d.links = weblink.Resolve(d.base.String(), links[:min(len(links), maxLinks)])
}

// maxLinks is how many links of an answer's header are remembered.
const maxLinks = 100

// keptHeaders are the fields of answers that are looked at when all documents were read.
var keptHeaders = []string{"Content-Type", "Content-Length", "Last-Modified", "Etag"}

// forget drops the parts of the answer's header that no later rule needs.
func (d *document) forget() {
	kept := http.Header{}
	for _, name := range keptHeaders {
		if value := d.header.Get(name); value != "" {
			kept.Set(name, strings.Clone(value))
		}
	}
	d.header = kept
}

// cloned is an entry that holds on to nothing but its own fields.
func cloned(e *payload.Entry) *payload.Entry {
	c := *e
	for _, text := range []*string{
		&c.Loc, &c.LastMod, &c.Hash, &c.Length, &c.Type, &c.Encoding, &c.Capability,
		&c.From, &c.Until, &c.At, &c.Completed, &c.DatetimeTold,
	} {
		*text = strings.Clone(*text)
	}
	c.Links = make([]payload.Link, len(e.Links))
	for i, l := range e.Links {
		for _, text := range []*string{
			&l.Rel, &l.Href, &l.Hash, &l.Length, &l.Type, &l.Encoding,
			&l.Modified, &l.Path, &l.Pri,
		} {
			*text = strings.Clone(*text)
		}
		c.Links[i] = l
	}
	return &c
}

// kindOf names the documents of a capability.
func kindOf(capability string, index bool) string {
	if name := payload.DocumentName(capability, index); name != "" {
		return name
	}
	name := "document without a capability"
	if capability != "" {
		name = "document with the capability " + quote(capability)
	}
	if index {
		name += " (a sitemapindex)"
	}
	return name
}

// clause is where the document is described.
func (d *document) clause() string {
	return payload.PlainClause(payload.ClauseOf(d.head.Capability, d.isIndex()))
}

// lead is where a document, or the caller, leads.
type lead struct {
	to   *url.URL
	role role
	from *document // nil at a start
	// entry is what lists the target, if an entry does; link is the link that leads there.
	entry *listed
	link  *payload.Link
	// at is where in from the lead is.
	at    place
	depth int
	// archived: an archive leads there, so that it is of another time.
	archived bool
	set      string // the Capability List of the target's set, empty if that is unknown
}

// claim is what a dump says of the package that it leads to.
func (l *lead) claim() claim {
	if l.role != rolePackage || l.entry == nil {
		return claim{}
	}
	return claim{length: l.entry.Length, hash: l.entry.Hash, mediaType: l.entry.Type}
}

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

// claim is what an entry, or a link of one, says of a representation.
type claim struct{ length, hash, mediaType, encoding string }

// difference is one attribute that is not what was served.
type difference struct{ attribute, told, have string }

// listing is a URI that a live document lists, and for a change its datetime.
type listing struct {
	uri     string
	n, line int
	when    time.Time
	change  payload.Change
}

// setOf returns the address of the Capability List of a document's set: the one that led here,
// else the target of its link with rel=up. It is empty for a document that has neither.
func setOf(d *document, l *lead) string {
	at := d.base
	if !d.is(payload.CapCapabilityList) {
		if l.set != "" {
			return l.set
		}
		up := d.link(payload.RelUp)
		if up == nil {
			return ""
		}
		at = d.resolve(up.Href)
	}
	if at == nil {
		return ""
	}
	return at.String()
}

// isTopic reports whether the answer names a hub, as that of a topic does.
func (d *document) isTopic() bool { return len(weblink.Find(d.links, "hub")) > 0 }

// isChannel reports whether a topic is meant for change notifications: it has one, or one that
// cannot be read, or nothing yet.
func (d *document) isChannel() bool {
	switch mediaType, _, _ := mime.ParseMediaType(d.header.Get("Content-Type")); {
	case d.known:
		return d.head.Capability == payload.ChangeNotification || d.head.Capability == ""
	case d.other:
		return false
	default:
		return mediaType == "application/xml" || mediaType == "text/xml" ||
			len(weblink.Find(d.links, relResourceSync)) > 0
	}
}

// isHub reports whether the answer is that of a hub, which names itself as its hub, and no topic.
func (d *document) isHub() bool {
	if !d.other {
		return false
	}
	hubs := d.addressesOf(d.links, "hub")
	return len(hubs) == 1 && hubs[0] == d.base.String()
}

// addressesOf are the targets of the links with a relation, each once, as addresses are
// compared. Other addresses stay as they are.
func (d *document) addressesOf(links []weblink.Link, rel string) (all []string) {
	for _, l := range weblink.Find(links, rel) {
		at := l.URI
		if to := d.resolve(at); to != nil {
			at = to.String()
		}
		if !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// same reports whether two documents are one, or copies at several addresses.
func (d *document) same(other *document) bool {
	return d == other || d.whole && other.whole && d.sum == other.sum
}

// serves reports whether a document of the round before can be used again for a lead.
func (d *document) serves(l *lead) bool {
	return d != nil && (d.pack == nil || d.pack.told == l.claim())
}

// lists returns the role of an entry of the document; ok is false where it does not lead on.
func (d *document) lists(e *listed) (r role, ok bool) {
	switch capability := d.head.Capability; {
	case d.isIndex():
		return rolePart, true
	case capability == payload.CapDescription:
		return roleSet, true
	case capability == payload.CapCapabilityList && e.Capability == payload.ChangeNotification:
		return roleTopic, true
	case capability == payload.CapCapabilityList:
		return roleCapability, true
	case capability == payload.CapResourceDump, capability == payload.CapChangeDump:
		return rolePackage, true
	}
	if _, is := payload.Archived(d.head.Capability); is {
		return roleArchived, true
	}
	return 0, false
}

func (d *document) span() span {
	h := &d.head
	return span{h.FromTime, h.UntilTime, h.AtTime, h.CompletedTime}
}

func (e *listed) span() span {
	return span{finite(e.From), finite(e.Until), finite(e.At), finite(e.Completed)}
}

func (d *document) ofResources() bool {
	of, _ := payload.Archived(d.head.Capability)
	return payload.IsSnapshot(of)
}

// span is what a document, or an entry of one, says of its times.
type span struct{ from, until, at, completed time.Time }

// isArchivedLink reports whether the document is an archive that other documents lead to by
// rel=archives alone: an entry in the Capability List is optional then (archives 2.1).
func (d *document) isArchivedLink() bool {
	_, is := payload.Archived(d.head.Capability)
	return is && d.led(roleArchives)
}

// dumpOf is the document whose clause a finding of a package has: its dump, or for a
// file its manifest.
func (d *document) dumpOf(l *lead) *document {
	switch {
	case d.pack.manifest != nil:
		return d.pack.manifest
	case l.from == nil:
		return &document{head: payload.Header{Capability: payload.CapResourceDumpManifest}}
	}
	return &document{head: payload.Header{Capability: payload.ManifestOf(l.from.head.Capability)}}
}

// says names the lead and its target.
func (l *lead) says() string { return roles[l.role].name + " " + quote(l.to.String()) }

// relResourceSync leads from a resource to the Capability List that covers it (core 6.3.3).
const relResourceSync = "resourcesync"

// isPlainSitemap reports whether a document is a sitemap of a site that knows nothing of
// ResourceSync.
func isPlainSitemap(d *document, l *lead) bool {
	return l.role == roleSitemap && d.head.Capability == ""
}
