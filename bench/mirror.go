package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/payload"
)

var (
	goalMirror = atLeast(0.5, "100,000 files of 1 kB: destination baseline ÷ a bare fetch loop that writes files", "×")
	goalPushed = atMost(10, "1,000 changes of them by push: until the last copy is right", " s")
)

const (
	// mirrorParallel is how many files are fetched at a time, by the mirror and by the loops.
	mirrorParallel = 8
	perDirectory   = 1000
	fileBytes      = 1000
	// mirrorWithin bounds the waits for a Source that is scanned, and for copies.
	mirrorWithin = 15 * time.Minute
)

// mirror has a directory be a Source, and a mirror follow it, by the programs as they come,
// beside loops that do nothing but fetch.
func mirror(ctx context.Context, e *env) error {
	m := newMirroring(e, "mirror")
	defer m.end()
	if err := m.source(ctx); err != nil {
		return err
	}
	e.report.section("Mirroring")
	e.report.note("%d files of about %d bytes, that a notifier watches and serves; %d fetched at a time, of one host. "+
		"The Source, its hub and whoever fetches share this machine's cores.", e.plan.mirrored, fileBytes, mirrorParallel)
	var rows [][]string
	row := func(what string, took time.Duration, more string) float64 {
		rate := float64(e.plan.mirrored) / took.Seconds()
		rows = append(rows, []string{what, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f s", took.Seconds()), more})
		return rate
	}
	took, err := m.fetchAll(ctx, "")
	if err != nil {
		return err
	}
	row("bare loop, what comes is thrown away", took, "")
	if took, err = m.fetchAll(ctx, filepath.Join(m.dir, "bare")); err != nil {
		return err
	}
	bare := row("bare loop, writes files", took, "")
	took, peak, err := m.command(ctx, "baseline")
	if err != nil {
		return err
	}
	ratio := row("destination baseline", took, fmt.Sprintf("%.0f MB", peak)) / bare
	if took, err = m.follow(ctx); err != nil {
		return err
	}
	rows = append(rows, []string{fmt.Sprintf("destination follow, %d changes by push", e.plan.changed), "", fmt.Sprintf("%.1f s", took.Seconds())})
	e.report.put(goalPushed, noEngine, took.Seconds())
	if took, peak, err = m.command(ctx, "audit"); err != nil {
		return fmt.Errorf("the audit is not in sync: %w", err)
	}
	row("destination audit, in sync", took, fmt.Sprintf("%.0f MB", peak))
	e.report.table([]string{"", "files/s", "in all", "peak memory"}, rows)
	e.report.put(goalMirror, noEngine, ratio)
	return nil
}

// mirroring is the Source and the mirror.
type mirroring struct {
	*env
	dir    string
	client *http.Client
	base   string   // of the files' URLs
	site   string   // of the notifier
	intake string   // of the notifier
	stops  []func() // of processes
}

func newMirroring(e *env, dir string) *mirroring {
	transport := &http.Transport{MaxIdleConnsPerHost: mirrorParallel}
	return &mirroring{env: e, dir: filepath.Join(e.dir, dir), client: &http.Client{Transport: transport}}
}

func (m *mirroring) end() {
	for i := len(m.stops) - 1; i >= 0; i-- {
		m.stops[i]()
	}
}

// fields reads a ready line.
func fields(line string) map[string]string {
	all := map[string]string{}
	for _, field := range strings.Fields(line) {
		if name, value, ok := strings.Cut(field, "="); ok {
			all[name] = value
		}
	}
	return all
}

// launch starts a program, and returns its ready line and its process ID.
func (m *mirroring) launch(ctx context.Context, binary string, args ...string) (ready map[string]string, pid int, err error) {
	cmd := exec.CommandContext(ctx, binary, append(args, "--log-level", "error")...)
	line, stop, err := start(cmd)
	if err != nil {
		return nil, 0, err
	}
	m.stops = append(m.stops, stop)
	return fields(line), cmd.Process.Pid, nil
}

// file is the path of one, below the directory or the base.
func file(i int) string { return fmt.Sprintf("%03d/file-%06d.txt", i/perDirectory, i) }

func textOf(i int, version string) []byte {
	line := fmt.Sprintf("%s %d ", version, i)
	return []byte(strings.Repeat(line, fileBytes/len(line)))
}

// source makes the files, and starts their notifier and its hub.
func (m *mirroring) source(ctx context.Context) error {
	watched := filepath.Join(m.dir, "files")
	for i := range m.plan.mirrored {
		if err := writeFile(filepath.Join(watched, file(i)), textOf(i, "first")); err != nil {
			return err
		}
	}
	begin := time.Now()
	if _, err := m.serve(ctx, "--watch", "files="+watched, "--serve", "files"); err != nil {
		return err
	}
	if err := m.scanned(ctx, "files", file(m.plan.mirrored-1)); err != nil {
		return err
	}
	m.base = m.site + "files/files/"
	m.log("the Source has found its files in %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// serve starts a hub and a notifier with these flags, and returns the process ID of the notifier.
// It builds the destination meanwhile.
func (m *mirroring) serve(ctx context.Context, flags ...string) (pid int, err error) {
	if err := build(ctx, m.env.dir, "notifier"); err != nil {
		return 0, err
	}
	hub, _, err := m.launch(ctx, m.binary, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+filepath.Join(m.dir, "hub"))
	if err != nil {
		return 0, err
	}
	notifier, pid, err := m.launch(ctx, filepath.Join(m.env.dir, "notifier"), append([]string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--hub", hub["url"],
		"--data", filepath.Join(m.dir, "notifier"), "--watch-settle", "100ms",
	}, flags...)...)
	if err != nil {
		return 0, err
	}
	m.site, m.intake = notifier["url"], notifier["intake"]
	return pid, build(ctx, m.env.dir, "destination")
}

// scanned waits until the Source has a Resource List of a set, and the last file in that or in its
// Change Lists.
func (m *mirroring) scanned(ctx context.Context, set, last string) error {
	last = m.site + set + "/files/" + last
	return m.until(ctx, func() (bool, error) {
		listed, err := m.lists(ctx, m.site+set+"/resourcelist.xml", last)
		if err != nil || listed {
			return err == nil, nil // there is none yet
		}
		listed, err = m.lists(ctx, m.site+set+"/changelist.xml", last)
		return err == nil && listed, nil
	})
}

// lists tells whether a list, or one that an index leads to, has a resource.
func (m *mirroring) lists(ctx context.Context, url, loc string) (bool, error) {
	text, err := m.get(ctx, url)
	if err != nil {
		return false, err
	}
	r := payload.NewReader(bytes.NewReader(text), payload.Limits{})
	head, err := r.Header()
	if err != nil {
		return false, err
	}
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		found := err == nil && entry.Loc == loc
		if err == nil && head.Root == payload.RootSitemapIndex {
			found, err = m.lists(ctx, entry.Loc, loc)
		}
		if found || err != nil {
			return found, err
		}
	}
}

// until waits for something to be so.
func (m *mirroring) until(ctx context.Context, so func() (bool, error)) error {
	ctx, stop := context.WithTimeout(ctx, mirrorWithin)
	defer stop()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (m *mirroring) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return text, err
}

// fetchAll is the bare loop: it gets every file, and writes it below to, if that is not empty.
func (m *mirroring) fetchAll(ctx context.Context, to string) (time.Duration, error) {
	begin := time.Now()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range mirrorParallel {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= m.plan.mirrored {
					return nil
				}
				text, err := m.get(ctx, m.base+file(i))
				if err == nil && to != "" {
					err = writeFile(filepath.Join(to, file(i)), text)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	err := g.Wait()
	return time.Since(begin), err
}

func writeFile(name string, text []byte) error {
	err := os.WriteFile(name, text, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = os.WriteFile(name, text, 0o600)
		}
	}
	return err
}

// destination is a command of the program on the mirror.
func (m *mirroring) destination(ctx context.Context, command string, more ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(m.env.dir, "destination"), append([]string{
		command, "--source", m.site, "--mirror", filepath.Join(m.dir, "copies"), "--data", filepath.Join(m.dir, "data"),
		"--log-level", "error", "--per-host", fmt.Sprint(mirrorParallel),
	}, more...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// command runs one to its end, and returns its peak memory in MB.
func (m *mirroring) command(ctx context.Context, command string) (took time.Duration, peak float64, err error) {
	begin := time.Now()
	cmd := m.destination(ctx, command)
	cmd.Stdout = m.stderr
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("destination %s: %w", command, err)
	}
	took = time.Since(begin)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = float64(usage.Maxrss) * 1024 / 1e6
	}
	return took, peak, nil
}

// follow has the mirror follow while files change, and returns how long after the first
// change the last copy was right.
func (m *mirroring) follow(ctx context.Context) (time.Duration, error) {
	_, stop, err := start(m.destination(ctx, "follow", "--delete", "--listen", "127.0.0.1:0", "--settle", "100ms"))
	if err != nil {
		return 0, err
	}
	defer stop()
	host := strings.Replace(strings.TrimSuffix(strings.TrimPrefix(m.site, "http://"), "/"), ":", "+", 1)
	copies := filepath.Join(m.dir, "copies", host, "files", "files")
	step := m.plan.mirrored / m.plan.changed
	begin := time.Now()
	want := map[string]string{}
	for i := range m.plan.changed {
		name, text := file(i*step), textOf(i*step, "second")
		switch i % 10 {
		case 0:
			want[name] = ""
			err = os.Remove(filepath.Join(m.dir, "files", name))
		case 1:
			name += ".new"
			fallthrough
		default:
			want[name] = string(text)
			err = writeFile(filepath.Join(m.dir, "files", name), text)
		}
		if err != nil {
			return 0, err
		}
	}
	err = m.until(ctx, func() (bool, error) {
		for name, text := range want {
			got, err := os.ReadFile(filepath.Join(copies, name))
			if string(got) != text || (err == nil) != (text != "") {
				return false, nil
			}
			delete(want, name)
		}
		return true, nil
	})
	if err != nil {
		err = fmt.Errorf("%d of %d changes are not in the mirror: %w", len(want), m.plan.changed, err)
	}
	return time.Since(begin), err
}
