package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"carillon/destination/mirror"
)

// packagesName is the directory below --data for packages of which an audit reads the manifests.
const packagesName = "packages"

// auditCommand compares a mirror with its Source.
type auditCommand struct {
	pullFlags `embed:""`
	Quick     bool `env:"-" help:"Compare lengths and times only, and read no file." group:"Output"`
	JSON      bool `name:"json" help:"Print each finding, and at the end what they come to, as an object of JSON on a line." group:"Output"`
}

// Help says what the flags do not.
func (*auditCommand) Help() string {
	return "It compares every copy with the Source's Resource List, and the Change List since: missing and extra " +
		"copies, and differences of lastmod, length or hash. It changes nothing in the mirror. Of a Source " +
		"that has dumps and no Resource List it downloads the packages to --data, reads their manifests and " +
		"removes them. A mirror that is kept at a moment (baseline --at) is compared with the Source's state " +
		"of then. The exit status is 0 where the mirror is in sync, and 1 where it is not. Copies of " +
		"resources that the Source has deleted are listed, and do not count; nor do resources outside of " +
		"--base where that was given. A resource whose loc cannot be fetched is invalid, and always counts."
}

func (c *auditCommand) run(ctx context.Context, in surroundings) (err error) {
	c.dump, c.packages = mirror.DumpAuto, filepath.Join(c.Data, packagesName)
	p, err := openPull(ctx, &c.pullFlags, true, in)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return err
	}
	if !p.mirror.Moment().IsZero() {
		if p.set, err = p.client.WithArchives(ctx, p.set); err != nil {
			return fmt.Errorf("--source: %w", err)
		}
	}
	end := showProgress("audit", p.mirror, in)
	all, err := p.mirror.Audit(ctx, p.client, p.set, mirror.AuditOptions{Quick: c.Quick}, func(f mirror.Finding) error {
		if c.JSON {
			return printJSON(in.stdout, f)
		}
		_, err := fmt.Fprintln(in.stdout, findingLine(&f))
		return err
	})
	end()
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	inSync, err := c.report(in.stdout, all, p.chosen())
	switch {
	case err != nil:
		return fmt.Errorf("printing: %w", err)
	case !inSync:
		return errReported
	}
	return nil
}

// report prints what the findings come to, and reports whether the mirror is in sync.
func (c *auditCommand) report(w io.Writer, all mirror.Audited, chosen bool) (inSync bool, err error) {
	off := all.Missing + all.Extra + all.Differing + all.Invalid
	if !chosen {
		off += all.Outside
	}
	if c.JSON {
		err := printJSON(w, struct {
			InSync    bool `json:"in_sync"`
			Resources int  `json:"resources"`
			Changes   int  `json:"changes"`
			Missing   int  `json:"missing"`
			Extra     int  `json:"extra"`
			Differing int  `json:"differing"`
			Kept      int  `json:"kept"`
			Outside   int  `json:"outside"`
			Invalid   int  `json:"invalid"`
		}{
			off == 0, all.Entries, all.Changes, all.Missing, all.Extra, all.Differing, all.Kept,
			all.Outside, all.Invalid,
		})
		return off == 0, err
	}
	verdict := "in sync"
	if off > 0 {
		verdict = "not in sync"
	}
	_, err = fmt.Fprintf(w, "audit: %s: %d resources listed and %d changes since; %d missing, %d extra, %d differing, %d kept though deleted, %d outside of what is mirrored, %d invalid\n",
		verdict, all.Entries, all.Changes, all.Missing, all.Extra, all.Differing, all.Kept, all.Outside, all.Invalid)
	return off == 0, err
}

// findingLine is a finding for people.
func findingLine(f *mirror.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", f.Kind)
	switch {
	case f.Loc != "":
		fmt.Fprintf(&b, "%q", f.Loc)
	default:
		fmt.Fprintf(&b, "file %q", f.Path)
	}
	if len(f.By) > 0 {
		fmt.Fprintf(&b, " by %s", strings.Join(f.By, ", "))
	}
	told := func(name, told, have string) {
		if told != "" || have != "" {
			fmt.Fprintf(&b, "; %s %q is described, %q is there", name, told, have)
		}
	}
	if f.Described != nil && f.Have != nil {
		told("lastmod", f.Described.LastMod, f.Have.LastMod)
		told("length", f.Described.Length, f.Have.Length)
		told("hash", f.Described.Hash, f.Have.Hash)
	}
	if f.Reason != "" {
		fmt.Fprintf(&b, ": %q", f.Reason)
	}
	return b.String()
}
