package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/notifier"
	"carillon/notifier/directory"
)

// watchFlags make sets of directories.
type watchFlags struct {
	Watch       []string      `placeholder:"NAME=DIR,BASEURI" help:"A directory is a set of resources: its files become resources whose URIs are BASEURI and the path, and their changes become events. The set need not be in --set. Repeatable. What begins with a dot, and links, are left out. BASEURI may be left out where the set is in --serve: it is /NAME/files/ below --url then." group:"Directories"`
	WatchSettle time.Duration `default:"2s" help:"How long size and time of a file must stay as they are before it is announced." group:"Directories" range:"more than 0, up to 1h"`
	WatchRescan time.Duration `default:"15m" help:"How often a watched directory is compared with its set as a whole, in case that the system did not tell of something." group:"Directories" range:"1s or more"`
	Serve       []string      `name:"serve" placeholder:"NAME" help:"Serve the files of a watched set on the public listener, at the path of its BASEURI, which must be at the host of --url. Repeatable." group:"Directories"`
}

// watched is what one --watch says.
type watched struct {
	set, dir, base string // base is empty where it is left to --url
	served         bool
}

// watchBegins is how a --watch begins: as lists are separated by commas, and a
// --watch has one of its own, what does not begin so goes on with the one before.
var watchBegins = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}=`)

// directories reads the flags.
func (f *watchFlags) directories() ([]watched, error) {
	var texts []string
	for _, part := range f.Watch {
		if len(texts) > 0 && !watchBegins.MatchString(part) {
			texts[len(texts)-1] += "," + part
			continue
		}
		texts = append(texts, part)
	}
	var all []watched
	for _, text := range texts {
		w, err := f.directory(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other watched) bool { return other.set == w.set }) {
			return nil, fmt.Errorf("--watch: %q is there twice", w.set)
		}
		all = append(all, w)
	}
	for _, name := range f.Serve {
		if !slices.ContainsFunc(all, func(w watched) bool { return w.set == name }) {
			return nil, fmt.Errorf("--serve: %q is no set of --watch", name)
		}
	}
	return all, nil
}

func (f *watchFlags) directory(text string) (watched, error) {
	set, rest, found := strings.Cut(text, "=")
	w := watched{set: set, dir: rest, served: slices.Contains(f.Serve, set)}
	// The directory may have commas: the URI is what begins as one.
	if i := max(strings.LastIndex(rest, ",http://"), strings.LastIndex(rest, ",https://")); i >= 0 {
		w.dir, w.base = rest[:i], rest[i+1:]
	}
	switch {
	case !found || set == "" || w.dir == "":
		return w, fmt.Errorf("--watch: %q is not NAME=DIR,BASEURI", text)
	case w.base == "" && !w.served:
		return w, fmt.Errorf(
			"--watch: %q has no BASEURI, which must begin with http:// or https:// (it may be left out with --serve %s)",
			text, set,
		)
	}
	return w, nil
}

// check reports the faults of the flags by themselves.
func (f *watchFlags) check(data string, stdin bool) error {
	all, err := f.directories()
	if err != nil {
		return err
	}
	problems := []error{}
	if len(all) > 0 && stdin {
		problems = append(problems, errors.New("--watch is not for --stdin, which ends"))
	}
	for _, w := range all {
		base := w.base
		if base == "" {
			base = "http://localhost/" // that of --url, which is good
		}
		cfg := directory.Config{Set: w.set, Dir: w.dir, Base: base, Settle: f.WatchSettle, Rescan: f.WatchRescan}
		switch err := cfg.Validate(); {
		case f.WatchSettle == 0, f.WatchRescan == 0:
			problems = append(problems, errors.New("--watch-settle and --watch-rescan must be over 0"))
		case err != nil && strings.HasPrefix(err.Error(), "watch-"):
			problems = append(problems, fmt.Errorf("--%w", err))
		case err != nil:
			problems = append(problems, fmt.Errorf("--watch %s: %w", w.set, err))
		}
		if within(data, w.dir) {
			problems = append(
				problems,
				fmt.Errorf(
					"--watch %s: --data %s is in the watched directory, where what it keeps would be a change again",
					w.set, data,
				),
			)
		}
	}
	return errors.Join(problems...)
}

// checkPlaces says where files must not be served.
func (f *watchFlags) checkPlaces(cfg notifier.Config) error {
	all, err := f.directories()
	if err != nil {
		return nil //nolint:nilerr // check reports it
	}
	problems := []error{}
	for _, w := range all {
		problems = append(problems, w.place(cfg.URL, cfg.Sets))
	}
	return errors.Join(problems...)
}

// within reports whether a directory is inside another watched one.
func within(dir, other string) bool {
	rel, err := filepath.Rel(whole(other), whole(dir))
	return err == nil && (rel == "." || filepath.IsLocal(rel) && !strings.HasPrefix(rel, ".") && !strings.Contains(rel, string(filepath.Separator)+"."))
}

// whole is a path without links, as far as it is there.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(whole(dir), filepath.Base(path))
	}
	return path
}

// watched are the sets of the directories.
func (f *watchFlags) watched() []string {
	all, err := f.directories()
	if err != nil {
		return nil // check reports it
	}
	var names []string
	for _, w := range all {
		names = append(names, w.set)
	}
	return names
}

// sets are all sets: those of --set, and those of the directories.
func (f *flags) sets() []string {
	sets := slices.Clone(f.Set)
	for _, name := range f.watched() {
		if !slices.Contains(sets, name) {
			sets = append(sets, name)
		}
	}
	return sets
}

// watchedDirectories opens the directories, each for its set, which n keeps the resources of.
func (f *flags) watchedDirectories(
	ctx context.Context, n *notifier.Notifier, cfg notifier.Config, store notifier.Resources, logger *slog.Logger,
) (*watchedSets, error) {
	all, err := f.directories()
	if err != nil {
		return nil, err
	}
	sets := &watchedSets{bySet: map[string]*directory.Directory{}}
	for _, w := range all {
		if err := w.place(cfg.URL, cfg.Sets); err != nil {
			return nil, err
		}
		d, err := directory.New(ctx, directory.Config{
			Set: w.set, Dir: w.dir, Base: w.base, Settle: f.WatchSettle, Rescan: f.WatchRescan,
			CapabilityList: n.CapabilityList(w.set), Sink: n, State: store, Logger: logger, Registry: cfg.Registry,
		})
		if err != nil {
			return nil, fmt.Errorf("--watch %s: %w", w.set, err)
		}
		sets.all = append(sets.all, d)
		sets.bySet[w.set] = d
		if w.served {
			if err := sets.serve(w.base, n.Serving(d.Files())); err != nil {
				return nil, fmt.Errorf("--serve %s: %w", w.set, err)
			}
		}
	}
	return sets, nil
}

// place completes the base, and says where a served one must not be: among the notifier's
// own documents.
func (w *watched) place(base string, sets []string) error {
	root, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	prefix := root.EscapedPath()
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if !w.served {
		return nil
	}
	if w.base == "" {
		w.base = strings.TrimSuffix(base, "/") + "/" + w.set + "/files/"
	}
	own, err := url.Parse(w.base)
	if err != nil {
		return fmt.Errorf("--watch %s: %w", w.set, err)
	}
	path := own.EscapedPath()
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("--serve %s: %s "+format, append([]any{w.set, w.base}, args...)...)
	}
	if own.Scheme != root.Scheme || !strings.EqualFold(own.Host, root.Host) {
		return refuse("is not at the host of --url (%s)", base)
	}
	for _, documents := range []string{"/.well-known/", prefix + ".well-known/"} {
		if overlap(path, documents) {
			return refuse("is where the Source Description is; such as %s%s/files/ is free", prefix, w.set)
		}
	}
	for _, set := range sets {
		if documents := prefix + set + "/"; overlap(path, documents) && !strings.HasPrefix(path, documents+"files/") {
			return refuse("is where the documents of the set %q are; such as %s%s/files/ is free", set, prefix, w.set)
		}
	}
	return nil
}

// overlap reports whether one path is below the other.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// watchedSets are the directories, and what the public listener serves.
type watchedSets struct {
	all    []*directory.Directory
	bySet  map[string]*directory.Directory // the same
	public http.Handler                    // the documents
	files  []served
}

type served struct {
	prefix  string // path of the base
	handler http.Handler
}

func (s *watchedSets) serve(base string, files http.Handler) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	prefix := u.EscapedPath()
	for _, other := range s.files {
		if overlap(prefix, other.prefix) {
			return fmt.Errorf("%s overlaps with %s of another set", prefix, other.prefix)
		}
	}
	s.files = append(s.files, served{prefix, files})
	return nil
}

// ServeHTTP serves files below the bases that are served, and documents.
func (s *watchedSets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	for _, f := range s.files {
		if strings.HasPrefix(path, f.prefix) {
			f.handler.ServeHTTP(w, r)
			return
		}
	}
	s.public.ServeHTTP(w, r)
}

// run watches all until ctx ends.
func (s *watchedSets) run(ctx context.Context) error {
	var g errgroup.Group
	for _, d := range s.all {
		g.Go(func() error { return d.Run(ctx) })
	}
	return g.Wait()
}
