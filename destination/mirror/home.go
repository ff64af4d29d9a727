package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// homeName is the file below ownName that says which mirror the directory has.
const homeName = "MIRROR"

// maxHome is how much of that file is read, bytes.
const maxHome = 128

// Errors of New, where the directory is not that of the Catalog.
var (
	// ErrElsewhere: the Catalog has copies, and they are not in Config.Dir.
	ErrElsewhere = errors.New("the copies that are recorded are not there")
	// ErrNoMirror: with Config.ReadOnly, nothing was mirrored yet.
	ErrNoMirror = errors.New("there is no mirror yet")
)

// atHome checks that the directory is the one with the Catalog's copies, before anything is made
// there: an empty mount point would count as a whole mirror. It returns the Home to be stored, with no
// ID where the directory has none.
func atHome(ctx context.Context, cfg *Config) (h Home, changed bool, err error) {
	if cfg.Homes == nil {
		return Home{}, false, nil
	}
	known, err := cfg.Homes.Home(ctx)
	if err != nil {
		return Home{}, false, err
	}
	if known.ID == "" && cfg.ReadOnly {
		return Home{}, false, fmt.Errorf("%w: the data directory knows of none; take a baseline first", ErrNoMirror)
	}
	is, err := homeOf(cfg.Dir)
	if err != nil {
		return Home{}, false, fmt.Errorf("mirror directory: %w", err)
	}
	if is == known.ID && is != "" {
		return known, false, nil
	}
	if known.ID != "" {
		for _, err := range cfg.Catalog.All(ctx) {
			if err != nil {
				return Home{}, false, err
			}
			return Home{}, false, elsewhere(cfg.Dir, is)
		}
	}
	if cfg.ReadOnly {
		return Home{}, false, fmt.Errorf("mirror directory %s: %w; take a baseline first", cfg.Dir, ErrNoMirror)
	}
	return Home{ID: is}, true, nil
}

func elsewhere(dir, is string) error {
	what := "it has no " + ownName + "/" + homeName
	if is != "" {
		what = "its " + ownName + "/" + homeName + " is that of another mirror"
	}
	return fmt.Errorf("mirror directory %s: %w: %s. Is it the right directory, and is its disk mounted? "+
		"Nothing was changed. If the copies are lost, take a baseline with a new data directory",
		dir, ErrElsewhere, what)
}

// homeOf reads the ID in a directory; empty without one.
func homeOf(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, ownName, homeName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHome))
	return string(text), err
}

// settleIn has both know each other: the directory first.
func settleIn(ctx context.Context, cfg *Config, t *tree, h Home) error {
	if h.ID == "" {
		h.ID = rand.Text()
		if err := t.writeHome(h.ID); err != nil {
			return fmt.Errorf("mirror directory %s: %w", cfg.Dir, err)
		}
	}
	return cfg.Homes.SetHome(ctx, h)
}

func (t *tree) writeHome(id string) error {
	p, err := t.newPart()
	if err != nil {
		return err
	}
	defer p.discard()
	if _, err := io.WriteString(p, id); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	err = errors.Join(p.file.Close(), t.own.Rename(p.name, homeName))
	if p.file, p.moved = nil, err == nil; err != nil {
		return err
	}
	return t.syncUpTo(ownName)
}
