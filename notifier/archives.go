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
	"carillon/notifier/moments"
	"carillon/payload"
)

// archives are the archives of one set, and the loop that adds documents to them and drops old
// ones. A set that is not archived has nil.
type archives struct {
	ch        *channel
	wake      chan struct{}
	all       []*keeping
	changes   *keeping
	resources *keeping
}

// keeping is one archive.
type keeping struct {
	*archive.Archive
	ch  *channel
	own Archivable
	// capability is that of the archive.
	capability string
	// address is that of a document below the set's; its one verb is the moment when it begins.
	address string

	mu      sync.Mutex
	touched time.Time // guarded by mu: when this process has last changed it
}

// newArchives loads the archives of Change Lists and Resource Lists.
func newArchives(ctx context.Context, ch *channel) (*archives, error) {
	if !slices.Contains(ch.n.cfg.Archives, ch.set) {
		return nil, nil
	}
	a := &archives{ch: ch, wake: make(chan struct{}, 1)}
	var err error
	if a.resources, err = a.open(ctx, Archivable{
		Capability: payload.CapResourceList, Waiting: a.lastingLists,
	}, "%s/list.xml", ""); err != nil {
		return nil, err
	}
	a.changes, err = a.open(ctx, Archivable{
		Capability: payload.CapChangeList, Waiting: a.closedLists, Kept: func() {
			ch.metrics.archiveWaiting.Dec()
			await.Wake(ch.lists.wake) // the journal may drop it now
		},
	}, "%s.xml", ".xml.gz")
	return a, err
}

// open loads an archive. It removes documents of a time that the journal has not seen.
func (a *archives) open(ctx context.Context, own Archivable, address, suffix string) (*keeping, error) {
	cfg := &a.ch.n.cfg
	k := &keeping{
		ch: a.ch, own: own, capability: payload.ArchiveOf(own.Capability), touched: a.ch.n.clock.Now(),
		address: "/archive/" + own.Capability + "/" + address,
	}
	entry, err := k.appendEntry(nil, archive.Kept{Begin: time.Unix(0, 0), End: time.Unix(0, 0)})
	if err != nil {
		return nil, err
	}
	k.Archive, err = archive.Open(archive.Config{
		Dir: filepath.Join(cfg.ArchiveDir, a.ch.set, own.Capability), Root: filepath.Dir(cfg.ArchiveDir),
		Suffix: suffix, Moments: !k.ofChanges(),
		Most: min(cfg.ArchiveEntries, (payload.MaxBytes-maxHead)/len(entry)), Logger: a.ch.log,
	})
	if err != nil {
		return nil, err
	}
	a.all = append(a.all, k)
	return k, a.cut(ctx, k)
}

// cut removes the documents of a time that the journal has not seen: they belong to another.
func (a *archives) cut(ctx context.Context, k *keeping) error {
	lists, err := a.ch.n.cfg.Journal.ChangeLists(ctx, a.ch.set)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return errNoList
	}
	last, err := a.ch.n.cfg.Journal.Last(ctx)
	if err != nil {
		return err
	}
	open := lists[len(lists)-1].From
	n, err := k.CutWhile(func(one archive.Kept) bool {
		if k.ofChanges() {
			return one.End.After(open)
		}
		return one.Begin.After(last)
	})
	if n > 0 {
		a.ch.log.Warn("archived documents belong to another journal, and are removed",
			"archive", k.capability, "documents", n)
	}
	return err
}

// ofChanges reports whether the documents cover intervals. Else they are of moments.
func (k *keeping) ofChanges() bool {
	return k.own.Capability == payload.CapChangeList || k.own.Capability == payload.CapChangeDump
}

// maxHead is more than the bytes of an archive document besides its entries.
const maxHead = 16 << 10

// changed records that documents have come or gone.
func (k *keeping) changed() {
	k.mu.Lock()
	k.touched = k.ch.n.clock.Now()
	k.mu.Unlock()
	k.show()
}

func (k *keeping) show() { k.ch.metrics.archived[k.capability].Set(float64(k.Len())) }

// modified returns when the archive changed last, or later.
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

// each returns the archives of the set; none if it is not archived.
func (a *archives) each() []*keeping {
	if a == nil {
		return nil
	}
	return a.all
}

// run archives documents, and drops old ones, until ctx ends.
func (a *archives) run(ctx context.Context) {
	if a == nil {
		return
	}
	for _, k := range a.all {
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

// step does all that is due, and returns how long until the next step. An error of one archive does
// not hold up the others.
func (a *archives) step(ctx context.Context) (wait time.Duration, err error) {
	now := a.ch.n.clock.Now()
	expired := now.Add(-a.ch.n.cfg.ArchiveFor)
	wait = longestLook
	for _, k := range a.all {
		keepErr := k.keepWaiting(ctx, expired)
		n, dropErr := k.DropUntil(expired)
		err = errors.Join(err, keepErr, dropErr)
		if n > 0 {
			k.changed()
			a.ch.log.Info("archived documents have gone, as --archive-for says",
				"archive", k.capability, "documents", n)
		}
		if oldest, _, some := k.Ends(); some {
			wait = min(wait, oldest.End.Sub(expired))
		}
	}
	return wait, err
}

// keepWaiting archives the documents that wait for it, oldest first.
func (k *keeping) keepWaiting(ctx context.Context, expired time.Time) error {
	waiting, err := k.own.Waiting(ctx)
	if err != nil {
		return err
	}
	if k.own.Sparse && len(waiting) > 0 {
		waiting = waiting[len(waiting)-1:]
	}
	for _, one := range waiting {
		_, newest, some := k.Ends()
		switch {
		case !one.End.After(expired), !k.Follows(one.Kept):
			continue
		case k.own.Sparse && some && one.Begin.Sub(newest.Begin) < k.ch.n.cfg.ArchiveEvery:
			continue
		case k.ofChanges() && some && newest.End.Before(one.Begin):
			k.ch.log.Warn("the archive has a hole: nothing of that time is there any more",
				"archive", k.capability,
				"from", payload.FormatDatetime(newest.End), "until", payload.FormatDatetime(one.Begin))
		}
		err := k.Add(one.Kept, func(path string) error { return one.Write(ctx, path) })
		if err != nil {
			return err
		}
		k.changed()
		k.ch.log.Info("a document was archived",
			"archive", k.capability, "begins", payload.FormatDatetime(one.Begin))
		if k.own.Kept != nil {
			k.own.Kept()
		}
	}
	return nil
}

// closedLists returns the Change Lists that are to be archived.
func (a *archives) closedLists(ctx context.Context) (all []Archiving, err error) {
	v, err := a.ch.lists.view(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range a.waiting(v.lists, a.ch.n.clock.Now().Add(-a.ch.n.cfg.ArchiveFor)) {
		all = append(all, Archiving{
			Kept: archive.Kept{Begin: l.From, End: l.Until},
			Write: func(ctx context.Context, path string) error {
				_, err := packDocument(ctx, path, a.ch.lists.archivedDocument(l))
				return err
			},
		})
	}
	a.ch.metrics.archiveWaiting.Set(float64(len(all)))
	return all, nil
}

// waiting returns the closed lists that are not archived yet, and not too old for it.
func (a *archives) waiting(lists []ChangeList, expired time.Time) []ChangeList {
	for i, l := range lists {
		k := archive.Kept{Begin: l.From, End: l.Until}
		if !l.Until.IsZero() && l.Until.After(expired) && a.changes.Follows(k) {
			return lists[i : len(lists)-1]
		}
	}
	return nil
}

// hasChanges reports whether a Change List is archived.
func (a *archives) hasChanges(from time.Time) bool {
	if a == nil {
		return false
	}
	_, _, found := a.changes.Find(from)
	return found
}

// secured returns the moment up to which the journal may drop Change Lists: keepFrom, or less, as
// lists that are still to be archived stay.
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

// resourcesIn returns how long it is until a Resource List is to be made for the archive. It reports
// false if none ever is.
func (a *archives) resourcesIn(now time.Time) (time.Duration, bool) {
	if a == nil {
		return 0, false
	}
	var last time.Time
	if _, newest, some := a.resources.Ends(); some {
		last = newest.Begin
	}
	for _, g := range a.ch.resources.served() {
		if g.Lasting && g.At.After(last) {
			last = g.At
		}
	}
	if last.IsZero() {
		return 0, true
	}
	return last.Add(a.ch.n.cfg.ArchiveEvery).Sub(now), true
}

// lastingLists returns the Resource Lists that were made for the archive.
func (a *archives) lastingLists(context.Context) (all []Archiving, _ error) {
	for _, g := range a.ch.resources.served() {
		if g.Lasting {
			all = append(all, Archiving{Kept: archive.Kept{Begin: g.At, End: g.Completed}, Write: g.linkTo})
		}
	}
	return all, nil
}

// hasResources reports whether the archive needs the files of a Resource List no more.
func (a *archives) hasResources(g *generation) bool {
	return a == nil || !g.Lasting ||
		!g.Completed.After(a.ch.n.clock.Now().Add(-a.ch.n.cfg.ArchiveFor)) ||
		!a.resources.Follows(archive.Kept{Begin: g.At, End: g.Completed})
}

// linkTo makes a directory with the same files.
func (g *generation) linkTo(ctx context.Context, dir string) error {
	names := []string{manifestName}
	for n := range len(g.Parts) + 1 {
		if g.stored(n) != nil {
			names = append(names, filepath.Base(g.file(n)))
		}
	}
	return archive.Link(ctx, dir, g.dir, names...)
}

// url is the address of the archive, partURL that of a part of it, and keptURL that of a document.
func (k *keeping) url() string { return k.ch.n.uris.of(k.ch.set + "/" + k.capability + ".xml") }

func (k *keeping) partURL(part archive.Part) string {
	return k.ch.n.uris.of(k.ch.set + "/" + k.capability + "/" + moments.Name(part.First) + ".xml")
}

func (k *keeping) keptURL(begin time.Time) string {
	return k.ch.n.uris.of(k.ch.set + fmt.Sprintf(k.address, moments.Name(begin)))
}

// appendEntry appends the entry of an archived document (archives §3 to §6).
func (k *keeping) appendEntry(dst []byte, one archive.Kept) ([]byte, error) {
	p := payload.Part{Loc: k.keptURL(one.Begin), At: one.Begin, Completed: one.End}
	if k.ofChanges() {
		p = payload.Part{Loc: p.Loc, From: one.Begin, Until: one.End}
	}
	return payload.AppendListed(dst, &p)
}

// linkHeader returns the value of a Link header, with the archive of a capability after the links.
func (a *archives) linkHeader(of string, links ...string) []string {
	for _, l := range a.links(nil, of) {
		links = append(links, "<"+l.Href+`>; rel="archives"`)
	}
	return []string{strings.Join(links, ", ")}
}

// links appends the link from a live document to its archive, if that has a document.
func (a *archives) links(links []payload.Link, of string) []payload.Link {
	for _, k := range a.each() {
		if k.own.Capability == of && k.Len() > 0 {
			links = append(links, payload.Link{Rel: payload.RelArchives, Href: k.url()})
		}
	}
	return links
}
