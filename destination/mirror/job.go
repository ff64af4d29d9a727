package mirror

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"time"

	"carillon/internal/digests"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// prepare looks at what is known of a resource, and gives it a path. It returns the host at whose
// turn the job is done; empty if there is nothing to do any more.
func (w *worker) prepare(ctx context.Context, j *job) (host string, err error) {
	j.copy, err = w.cfg.Catalog.Copy(ctx, j.loc)
	if errors.Is(err, ErrNone) {
		j.copy, err = Copy{Loc: j.loc}, nil
	}
	if err != nil {
		return "", err
	}
	known := j.copy.State != ""
	switch {
	case j.retry && (!known || j.copy.Next.IsZero() || time.Now().Before(j.copy.Next)):
		return "", nil // it was seen to meanwhile
	case j.retry:
		j.described = j.copy.Described
	case !w.kept() && earlier(j.described.Datetime, j.copy.Described.Datetime):
		j.finished = true // handed on again, after what came later
		w.counts.unchanged.Add(1)
		return "", nil
	case j.packed != nil && j.described.Change == "" && !j.packed.listed.IsZero() && j.copy.Described.Datetime.After(j.packed.listed):
		return "", nil // what it was changed to since is known already
	}
	if j.described.Change == payload.Deleted {
		if !known {
			j.finished = true
			w.counts.unchanged.Add(1)
			return "", nil
		}
		return localHost, nil
	}
	if j.url, err = w.allowed(j.loc); err == nil && j.copy.Path == "" {
		j.copy.Path, j.claimed, err = w.claims.give(ctx, j.loc, naturalPath(j.url))
	}
	if fatal(err) {
		return "", err
	}
	if err != nil {
		w.fail(j, err)
		return "", nil
	}
	if j.packed != nil {
		return localHost, nil
	}
	return fetch.Authority(j.url), nil
}

// errNotPacked ends a job that goes on at the host of its resource.
var errNotPacked = errors.New("the package does not have it")

// do does a job, as far as that is done at one host. It returns the host at which the job goes on,
// empty if it has ended. An error is trouble of the mirror itself, and the job is not done.
func (w *worker) do(ctx context.Context, host string, j *job) (next string, err error) {
	if j.described.Change == payload.Deleted {
		err = w.remove(ctx, j)
	} else {
		err = w.keep(ctx, host, j)
	}
	switch {
	case errors.Is(err, errNotPacked):
		j.packed = nil
		return fetch.Authority(j.url), nil
	case fatal(err):
		return "", err
	case err != nil:
		w.fail(j, err)
	}
	return "", nil
}

// fail records why a job failed.
func (w *worker) fail(j *job, err error) {
	var t *failure
	errors.As(err, &t)
	c := &j.copy
	if !j.retry {
		c.Tries = 0
	}
	if w.kept() && t.state == Missing {
		t = &failure{state: Failed, reason: t.reason, after: t.after} // it was there at the moment
	}
	c.Described, c.State, c.Reason = j.described, t.state, legible.Cut(t.reason)
	c.Tries++
	c.Next = time.Time{}
	switch t.state {
	case Refused:
		w.counts.refused.Add(1)
	case Invalid:
		w.counts.invalid.Add(1)
	case Missing:
		w.counts.missing.Add(1)
		c.Next = w.again(c.Tries, t.after)
	default:
		w.counts.failed.Add(1)
		if !t.final {
			c.Next = w.again(c.Tries, t.after)
		}
	}
	j.save, j.finished = true, true
	w.log(c, t.after > 0 && !t.host)
}

// done records that a copy matches its description.
func (w *worker) done(j *job) {
	c := &j.copy
	changed := c.State != Whole || c.Described != j.described || j.claimed != "" || !c.Next.IsZero() || j.save
	c.Described, c.State, c.Tries, c.Next, c.Reason = j.described, Whole, 0, time.Time{}, ""
	j.save, j.finished = changed, true
}

// remove carries out a deletion, or records that the file was kept.
func (w *worker) remove(ctx context.Context, j *job) error {
	c := &j.copy
	if w.cfg.Delete && !j.keep && c.Path != "" {
		if err := w.tree.remove(c.Path); err != nil {
			return failed("its file cannot be removed: %v", err)
		}
		c.File = nil
	} else if err := w.checkAgain(ctx, c); err != nil {
		return err
	}
	j.finished = true
	if c.File == nil {
		j.forget = true
		w.counts.deleted.Add(1)
		return nil
	}
	links := c.Described.Links
	c.Described, c.State, c.Tries, c.Next, c.Reason = j.described, Gone, 0, time.Time{}, ""
	if c.Described.Links == "" {
		c.Described.Links = links // where it came from stays known
	}
	if j.unlisted {
		c.Described.Datetime = time.Time{} // a list that has it again is believed, of whatever moment it is
	}
	j.save = true
	w.counts.kept.Add(1)
	return nil
}

// checkAgain records the facts of a kept copy's file where they differ from the record. Either a crash
// came between a later file and its record, or another program has changed it.
func (w *worker) checkAgain(ctx context.Context, c *Copy) error {
	if c.File == nil || w.tree.intact(c) {
		return nil
	}
	info := w.tree.regular(c.Path)
	if info == nil {
		c.File = nil
		return nil
	}
	h, n, err := w.hash(ctx, c.Path, nil)
	if fatal(err) {
		return err
	}
	if err == nil && n == info.Size() {
		c.File = fileOf(info, h.SHA256())
	}
	return nil
}

// keep makes the copy match its description: as it is, or by the file in its place, or by fetching it.
func (w *worker) keep(ctx context.Context, host string, j *job) error {
	c := &j.copy
	if j.described.Change == undecided {
		return errUndecided
	}
	intact := w.tree.intact(c)
	if !intact && j.packed == nil { // what a package has costs no more than looking at what is there
		if adopted, err := w.adopt(ctx, j); adopted || err != nil {
			return err
		}
	}
	if !intact {
		c.File = nil
	}
	if intact && c.State == Whole && w.same(c, &j.described) {
		w.counts.unchanged.Add(1)
		return w.asDescribed(j)
	}
	if j.packed != nil {
		if done, err := w.storePacked(ctx, j); done || err != nil || j.packedOnly {
			return err
		}
		return errNotPacked
	}
	if known, _ := digests.Parse(j.described.Hash); w.kept() && len(known) == 0 {
		return errUnproven
	}
	old := c.File
	got, err := w.ask(ctx, host, j, old, j.retry)
	if errors.Is(err, errUnchanged) {
		ok, hashErr := w.verify(ctx, c.Path, &j.described)
		if hashErr != nil {
			return hashErr
		}
		if ok {
			w.counts.unchanged.Add(1)
			return w.asDescribed(j)
		}
		got, err = w.ask(ctx, host, j, nil, true) // it is not, whatever the server says
	}
	if err != nil {
		return err
	}
	return w.put(j, got)
}

// ask fetches at the host's turn.
func (w *worker) ask(ctx context.Context, host string, j *job, old *File, fresh bool) (*fetched, error) {
	if w.cfg.Dump == DumpOnly {
		return nil, failed(
			"no package of the dump has it as the Source describes it, and with --dump only it is not fetched",
		)
	}
	h := w.hosts.Of(host)
	if err := h.Enter(ctx); err != nil {
		return nil, troubleOf(err)
	}
	defer h.Leave()
	if err := w.slot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-w.slots }()
	got, err := w.fetch.fetch(ctx, j.url, &j.described, old, fresh)
	var t *failure
	if errors.As(err, &t) || err == nil || errors.Is(err, errUnchanged) {
		h.Note(err)
	}
	return got, err
}

func (w *worker) slot(ctx context.Context) error {
	select {
	case w.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put moves what was fetched to its place.
func (w *worker) put(j *job, got *fetched) error {
	defer got.file.discard()
	c := &j.copy
	modified := j.described.modified()
	if modified.IsZero() {
		modified = got.modified
	}
	info, err := got.file.rename(c.Path, modified)
	if err != nil {
		return writeFailure(err)
	}
	c.File = fileOf(info, got.hashes.SHA256())
	c.File.ETag, c.File.LastModified, c.File.Encoding = got.etag, got.described, got.encoding
	j.save = true
	w.counts.fetched.Add(1)
	w.counts.bytes.Add(got.size)
	w.done(j)
	return nil
}

// same is the function same. For copies that are kept at a moment only a hash decides.
func (w *worker) same(c *Copy, described *Described) bool {
	if known, _ := digests.Parse(described.Hash); w.kept() && len(known) == 0 {
		return false
	}
	return same(c, described)
}

// same reports whether the file, which matched the description before, also matches the new one.
func same(c *Copy, described *Described) bool {
	if size := described.size(); size >= 0 && size != c.File.Size {
		return false
	}
	known, _ := digests.Parse(described.Hash)
	if len(known) > 0 {
		if described.Hash == c.Described.Hash {
			return true // it was verified by that
		}
		for _, d := range known {
			if d.Algorithm != "sha-256" || d.Hex != hex.EncodeToString(c.File.SHA256[:]) {
				return false
			}
		}
		return true
	}
	if described.Change != "" {
		return false // two changes may have the same datetime
	}
	modified := described.modified()
	return !modified.IsZero() && modified.Equal(c.Described.modified())
}

// asDescribed gives the file the described time of modification, and records the description.
func (w *worker) asDescribed(j *job) error {
	c := &j.copy
	if modified := j.described.modified(); !modified.IsZero() && !modified.Equal(j.copy.Described.modified()) {
		info, err := w.tree.touch(c.Path, modified)
		if err != nil {
			return failed("its file cannot be given its time: %v", err)
		}
		c.File.ModTime = info.ModTime().UTC()
		j.save = true
	}
	w.done(j)
	return nil
}

// verify reads the file and reports whether it has the described length and hashes.
func (w *worker) verify(ctx context.Context, at string, described *Described) (bool, error) {
	known, _ := digests.Parse(described.Hash)
	info := w.tree.regular(at)
	if size := described.size(); info == nil || size >= 0 && size != info.Size() {
		return false, nil
	}
	if len(known) == 0 {
		return true, nil
	}
	h, _, err := w.hash(ctx, at, known)
	if err != nil {
		return false, err
	}
	_, _, differs := h.Differs(known)
	return !differs, nil
}

// hash reads a file at its turn. An unreadable file is *trouble.
func (w *worker) hash(ctx context.Context, at string, need []digests.Digest) (*digests.Hashing, int64, error) {
	if err := w.slot(ctx); err != nil {
		return nil, 0, err
	}
	defer func() { <-w.slots }()
	h, n, err := w.tree.hash(ctx, at, need)
	if err != nil && ctx.Err() == nil {
		err = failed("its file cannot be read: %v", err)
	}
	return h, n, err
}

// adopt takes a file in the copy's place for the copy, where it has a described hash: the Catalog is
// new, or was lost, or another program has changed the file.
func (w *worker) adopt(ctx context.Context, j *job) (bool, error) {
	c := &j.copy
	known, _ := digests.Parse(j.described.Hash)
	info := w.tree.regular(c.Path)
	if size := j.described.size(); info == nil || len(known) == 0 || size >= 0 && size != info.Size() {
		return false, nil
	}
	h, n, err := w.hash(ctx, c.Path, known)
	if fatal(err) {
		return false, err
	}
	if err != nil || n != info.Size() {
		return false, nil // it is fetched
	}
	if _, _, differs := h.Differs(known); differs {
		return false, nil
	}
	if modified := j.described.modified(); !modified.IsZero() {
		var touched fs.FileInfo
		if touched, err = w.tree.touch(c.Path, modified); err != nil {
			return false, nil
		}
		info = touched
	}
	c.File = fileOf(info, h.SHA256())
	j.save = true
	w.counts.unchanged.Add(1)
	w.done(j)
	return true, nil
}

// storePacked takes the package's content for the copy, if it matches the Source's description. done
// is false where the content must come from elsewhere.
func (w *worker) storePacked(ctx context.Context, j *job) (done bool, err error) {
	got, err := w.unpack(ctx, j)
	if err == nil {
		if err = w.put(j, got); err == nil {
			w.counts.unpacked.Add(1)
		}
		return true, err
	}
	if ctx.Err() != nil || errors.Is(err, ErrRoom) {
		return false, err
	}
	w.counts.spoiled.Add(1)
	if w.lines.may(w.cfg.Logger) {
		next := "it is fetched by GET"
		if w.cfg.Dump == DumpOnly {
			next = "it is not mirrored"
		}
		w.cfg.Logger.Warn("the content in a package is not used", "loc", legible.Cut(j.loc), "package", legible.Cut(j.packed.from.URI),
			"reason", legible.Cut(err.Error()), "next", next)
	}
	return false, nil
}

// unpack writes the content of a package into a file, and compares it with the Source's description
// and with the manifest's.
func (w *worker) unpack(ctx context.Context, j *job) (*fetched, error) {
	p := j.packed
	want := j.described
	size, manifest := want.size(), p.described.size()
	switch {
	case size >= 0 && manifest >= 0 && size != manifest:
		return nil, failed("the manifest has %d bytes, and the Source announced %d", manifest, size)
	case size < 0:
		want.Length = p.described.Length
	}
	if size = want.size(); size > w.cfg.MaxBytes {
		return nil, failed("it has %d bytes, more than the limit of %d", size, w.cfg.MaxBytes)
	}
	if want.Hash != p.described.Hash {
		want.Hash += " " + p.described.Hash
	}
	content, err := p.from.Content(p.path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	got := &fetched{modified: p.described.modified(), encoding: p.described.Encoding}
	if err = w.fetch.write(got, onlyReader{ctx, content}, -1, &want); err != nil {
		if got.file != nil {
			got.file.discard()
		}
		return nil, err
	}
	return got, nil
}
