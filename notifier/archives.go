package notifier

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon/internal/await"
	"carillon/notifier/archive"
	"carillon/payload"
)

// archives are those of one set, and the loop that adds to them and lets old documents go.
// A set without archives has a nil one.
type archives struct {
	ch        *channel
	wake      chan struct{}
	changes   *keeping
	resources *keeping
	others    []*keeping // of companions
}

// keeping is one archive.
type keeping struct {
	*archive.Archive
	ch *channel
	// own is what a companion does for it; its fields are nil where it is the channel's own.
	own Archivable
	// capability is the archive's own, of that which it lists.
	capability, of string
	// address is that of a document below the set's; its one verb is the time that it begins at.
	address string

	mu      sync.Mutex
	touched time.Time // guarded by mu: when this process has seen it change last
}

// newArchives finds what an earlier run has left, and removes what no journal goes on from.
func newArchives(ctx context.Context, ch *channel) (*archives, error) {
	cfg := &ch.n.cfg
	if !slices.Contains(cfg.Archives, ch.set) {
		return nil, nil
	}
	a := &archives{ch: ch, wake: make(chan struct{}, 1)}
	var err error
	if a.changes, err = ch.newKeeping(payload.CapChangeList, "%s.xml", ".xml.gz"); err != nil {
		return nil, err
	}
	if a.resources, err = ch.newKeeping(payload.CapResourceList, "%s/list.xml", ""); err != nil {
		return nil, err
	}
	return a, a.continued(ctx, a.changes, a.resources)
}

// continued removes what is of a time that the journal has not seen.
func (a *archives) continued(ctx context.Context, all ...*keeping) error {
	journal := a.ch.n.cfg.Journal
	lists, err := journal.ChangeLists(ctx, a.ch.set)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return errNoList
	}
	last, err := journal.Last(ctx)
	if err != nil {
		return err
	}
	open := lists[len(lists)-1].From
	for _, k := range all {
		foreign := func(one archive.Kept) bool { return one.Begin.After(last) }
		if k.ofChanges() {
			foreign = func(one archive.Kept) bool { return one.End.After(open) }
		}
		if err := k.cut(foreign); err != nil {
			return err
		}
	}
	return nil
}

// ofChanges tells an archive of what covers intervals from one of moments.
func (k *keeping) ofChanges() bool {
	return k.of == payload.CapChangeList || k.of == payload.CapChangeDump
}

// newKeeping opens the archive of documents of a capability.
func (ch *channel) newKeeping(of, address, suffix string) (*keeping, error) {
	k := &keeping{ch: ch, capability: payload.ArchiveOf(of), of: of, address: "/archive/" + of + "/" + address, touched: ch.n.clock.Now()}
	entry, err := k.append(nil, archive.Kept{Begin: time.Unix(0, 0), End: time.Unix(0, 0)})
	if err != nil {
		return nil, err
	}
	k.Archive, err = archive.Open(archive.Config{
		Dir: filepath.Join(ch.n.cfg.ArchiveDir, ch.set, of), Root: filepath.Dir(ch.n.cfg.ArchiveDir), Suffix: suffix,
		Most: min(ch.n.cfg.ArchiveEntries, (payload.MaxBytes-maxHead)/len(entry)), Logger: ch.log,
	})
	return k, err
}

// maxHead is more than what an archive document has besides its entries.
const maxHead = 16 << 10

// cut removes what is of another journal.
func (k *keeping) cut(foreign func(archive.Kept) bool) error {
	n, err := k.CutWhile(foreign)
	if n > 0 {
		k.ch.log.Warn("archived documents are of a time that the journal has not seen, as of another journal, and are removed",
			"archive", k.capability, "documents", n)
	}
	return err
}

// changed notes that what the archive has is another.
func (k *keeping) changed() {
	k.mu.Lock()
	k.touched = k.ch.n.clock.Now()
	k.mu.Unlock()
	k.show()
}

func (k *keeping) show() { k.ch.metrics.archived[k.capability].Set(float64(k.Len())) }

// modified is when the archive changed last, or later.
func (k *keeping) modified() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.touched
}

func (a *archives) poke() {
	if a == nil {
		return
	}
	await.Wake(a.wake)
}

// all are the archives that there are.
func (a *archives) all() []*keeping {
	if a == nil {
		return nil
	}
	return append([]*keeping{a.resources, a.changes}, a.others...)
}

// run archives, and lets old documents go, until ctx ends.
func (a *archives) run(ctx context.Context) {
	if a == nil {
		return
	}
	for _, k := range a.all() {
		k.show()
	}
	pause := newBackOff()
	for ctx.Err() == nil {
		wait, err := a.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = min(pause.NextBackOff(), longestRetry)
			a.ch.metrics.archiveFailures.Inc()
			a.ch.log.Error("trouble with the archive; what is to be archived is kept until it can be",
				"error", err, "retry_in", wait.String())
			_ = await.For(ctx, wait) // ctx has ended
			continue
		}
		pause.Reset()
		_, _ = await.Until(ctx, max(wait, shortestLook), a.wake) // ctx may have ended
	}
}

// step does all that is to be done now, and returns when to look again.
func (a *archives) step(ctx context.Context) (wait time.Duration, err error) {
	now := a.ch.n.clock.Now()
	expired := now.Add(-a.ch.n.cfg.ArchiveFor)
	wait = longestLook
	err = errors.Join(a.keepResources(), a.keepChanges(ctx, expired))
	for _, k := range a.others {
		err = errors.Join(err, k.keepWaiting(expired))
	}
	for _, k := range a.all() {
		n, dropErr := k.DropUntil(expired)
		if n > 0 {
			k.changed()
			a.ch.log.Info("archived documents have gone, as --archive-for says", "archive", k.capability, "documents", n)
		}
		err = errors.Join(err, dropErr)
		if oldest, _, some := k.Ends(); some {
			wait = min(wait, oldest.End.Sub(expired))
		}
	}
	return wait, err
}

// keepChanges archives the Change Lists that are closed and not archived yet, oldest first.
func (a *archives) keepChanges(ctx context.Context, expired time.Time) error {
	v, err := a.ch.lists.view(ctx)
	if err != nil {
		return err
	}
	waiting := a.waiting(v.lists, expired)
	defer func() { a.ch.metrics.archiveWaiting.Set(float64(len(waiting))) }()
	for len(waiting) > 0 {
		l := waiting[0]
		if _, newest, some := a.changes.Ends(); some && newest.End.Before(l.From) {
			a.ch.log.Warn("the archive has a hole: there are no Change Lists of that time any more",
				"from", payload.FormatDatetime(newest.End), "until", payload.FormatDatetime(l.From))
		}
		d := a.ch.archivedDocument(l)
		err := a.changes.Add(archive.Kept{Begin: l.From, End: l.Until}, func(path string) error {
			_, err := packDocument(ctx, path, d)
			return err
		})
		if err != nil {
			return err
		}
		waiting = waiting[1:]
		a.changes.changed()
		await.Wake(a.ch.lists.wake) // it may go from the journal now
	}
	return nil
}

// waiting are the closed lists that are to be archived.
func (a *archives) waiting(lists []ChangeList, expired time.Time) []ChangeList {
	_, newest, some := a.changes.Ends()
	for i, l := range lists {
		if !l.Until.IsZero() && l.Until.After(expired) && !(some && l.From.Before(newest.End)) {
			return lists[i : len(lists)-1]
		}
	}
	return nil
}

// hasChanges tells whether a Change List is archived.
func (a *archives) hasChanges(from time.Time) bool {
	if a == nil {
		return false
	}
	_, _, found := a.changes.Find(from)
	return found
}

// secured bounds up to where Change Lists may go from the journal: what is to be archived stays.
func (a *archives) secured(lists []ChangeList, keepFrom, now time.Time) time.Time {
	if a == nil {
		return keepFrom
	}
	waiting := a.waiting(lists, now.Add(-a.ch.n.cfg.ArchiveFor))
	if len(waiting) > 0 && waiting[0].From.Before(keepFrom) {
		return waiting[0].From
	}
	return keepFrom
}

// resourcesIn is how long it is until a Resource List is to be made that stays; false where none
// ever is.
func (a *archives) resourcesIn(now time.Time) (time.Duration, bool) {
	if a == nil {
		return 0, false
	}
	var last time.Time
	if _, newest, some := a.resources.Ends(); some {
		last = newest.Begin
	}
	for _, g := range a.ch.resources.all() {
		if g.Lasting && g.At.After(last) {
			last = g.At
		}
	}
	if last.IsZero() {
		return 0, true
	}
	return last.Add(a.ch.n.cfg.ArchiveEvery).Sub(now), true
}

// keepResources archives the Resource Lists that were made to stay.
func (a *archives) keepResources() error {
	for _, g := range a.ch.resources.all() {
		if a.hasResources(g) {
			continue
		}
		if err := a.resources.Add(archive.Kept{Begin: g.At, End: g.Completed}, g.linkTo); err != nil {
			return err
		}
		a.resources.changed()
		a.ch.log.Info("a Resource List was archived", "at", payload.FormatDatetime(g.At), "resources", g.entries())
	}
	return nil
}

// hasResources tells whether the files of a Resource List are not needed any more for the archive.
func (a *archives) hasResources(g *generation) bool {
	if a == nil || !g.Lasting || !g.Completed.After(a.ch.n.clock.Now().Add(-a.ch.n.cfg.ArchiveFor)) {
		return true
	}
	_, newest, some := a.resources.Ends()
	return some && !g.At.After(newest.Begin)
}

// linkTo makes a directory with the same files.
func (g *generation) linkTo(dir string) error {
	names := []string{manifestName}
	for n := range len(g.Parts) + 1 {
		if g.stored(n) != nil {
			names = append(names, filepath.Base(g.file(n)))
		}
	}
	return archive.Link(dir, g.dir, names...)
}

// url is where the archive is, partURL where one of its parts is, and keptURL where what it
// keeps is.
func (k *keeping) url() string { return k.ch.n.publicURL(k.ch.set + "/" + k.capability + ".xml") }

func (k *keeping) partURL(part archive.Part) string {
	return k.ch.n.publicURL(k.ch.set + "/" + k.capability + "/" + part.First.UTC().Format(listAddress) + ".xml")
}

func (k *keeping) keptURL(begin time.Time) string {
	return k.ch.n.publicURL(k.ch.set + fmt.Sprintf(k.address, begin.UTC().Format(listAddress)))
}

// append appends the entry of a document that the archive keeps (archives §3 to §6).
func (k *keeping) append(dst []byte, one archive.Kept) ([]byte, error) {
	p := payload.Part{Loc: k.keptURL(one.Begin), At: one.Begin, Completed: one.End}
	if k.ofChanges() {
		p = payload.Part{Loc: p.Loc, From: one.Begin, Until: one.End}
	}
	return payload.AppendListed(dst, &p)
}

// header is the value of a Link header that tells where older documents are, too.
func (a *archives) header(of string, links ...string) []string {
	for _, l := range a.links(nil, of) {
		links = append(links, "<"+l.Href+`>; rel="archives"`)
	}
	return []string{strings.Join(links, ", ")}
}

// links adds to the links of a document that is served now where older ones are.
func (a *archives) links(links []payload.Link, of string) []payload.Link {
	for _, k := range a.all() {
		if k.of == of && k.Len() > 0 {
			links = append(links, payload.Link{Rel: payload.RelArchives, Href: k.url()})
		}
	}
	return links
}

// archiveCapabilities are the values of a metric's label.
var archiveCapabilities = []string{
	payload.CapResourceListArchive, payload.CapResourceDumpArchive, payload.CapChangeListArchive, payload.CapChangeDumpArchive,
}
