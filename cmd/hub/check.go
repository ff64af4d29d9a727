package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/program"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/store/redisstore"
)

var (
	_ program.Looker = (*serveCommand)(nil)
	_ program.Shower = (*serveCommand)(nil)
)

// Look implements program.Looker: all that can be seen of the settings of a hub without a
// store and without listeners.
func (f *serveCommand) Look(_ context.Context, logger *slog.Logger) error {
	f.warn(logger)
	f.tell(logger)
	all := []error{
		checkFiles(program.OpenFiles()),
		f.publicEndpoint(logger).Check(f.URL), f.adminEndpoint(logger).Check(""),
		f.lookAtToken(logger), f.lookAtStore(logger), f.lookAtWayOut(),
	}
	if f.URL == "" {
		all = append(all, program.NeedsURL(f.Listen))
	} else if err := (hub.Config{URL: f.URL}).Validate(); err != nil {
		all = append(all, fmt.Errorf("--url: %w", err))
	}
	return errors.Join(all...)
}

// tell warns of what the hub gives less room for than it could use.
func (f *serveCommand) tell(logger *slog.Logger) {
	f.shares().tell(logger, memoryLimit(), int64(f.MaxBody), int64(f.ConnectionBytes))
	partsOf(program.OpenFiles()).tell(logger, program.OpenFiles())
}

// shares are the parts that what is large has of the memory.
func (f *serveCommand) shares() shares {
	return sharesWithin(memoryLimit(), int64(f.MaxBody), int64(f.ConnectionBytes))
}

// publicEndpoint and adminEndpoint are the listeners.
func (f *serveCommand) publicEndpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{Flag: "listen", Address: f.Listen, TLS: f.TLS, Most: partsOf(program.OpenFiles()).public, Proxies: f.TrustedProxy, Finish: f.stageWithin(), Logger: logger}
}

func (f *serveCommand) adminEndpoint(logger *slog.Logger) program.Endpoint {
	return program.Endpoint{Flag: "admin", Address: f.Admin, TLS: f.AdminTLS, Most: partsOf(program.OpenFiles()).operator, Operators: true, Logger: logger}
}

// lookAtToken reads the operator's token, and asks whether the operator's listener may be
// where it is to be.
func (f *serveCommand) lookAtToken(logger *slog.Logger) error {
	return errors.Join(f.guard(loopbackOnly(f.Admin), logger), lookForAdminToken(f.AdminTokenFile, logger))
}

// loopbackOnly tells whether a listener at the address is reached by this machine only, as
// far as that is told without asking for a name's addresses.
func loopbackOnly(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // it is refused for that
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// lookAtStore looks at what the store is kept in.
func (f *serveCommand) lookAtStore(logger *slog.Logger) error {
	for _, warning := range f.exposed() {
		logger.Warn(warning)
	}
	where, err := f.directory()
	if redisstore.IsURL(f.Store) || err != nil {
		return nil // Validate looks at these
	}
	if err := program.CheckDirectory(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failed(err)
	}
	return f.failed(refuseRoot(where))
}

// exposed tells what of the store others can read.
func (f *storeFlags) exposed() []string {
	if redisstore.IsURL(f.Store) {
		return program.ExposedSecret("--redis-password-file", f.RedisPasswordFile)
	}
	where, err := f.directory()
	if err != nil {
		return nil
	}
	return program.ExposedDirectory("--store", where)
}

// lookAtWayOut makes what goes out, which connects to nobody.
func (f *serveCommand) lookAtWayOut() error {
	way, err := f.wayOut(f.URL, egress.NamesConfig{TTL: f.DNSTTL}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if _, err := egress.New(way); err != nil {
		return fmt.Errorf("--allow-net: %w", err)
	}
	return nil
}

// Shown implements program.Shower.
func (f *serveCommand) Shown(flag, value string) string {
	switch {
	case flag == "store":
		return f.shown()
	case flag == "proxy" && strings.Contains(value, "@"):
		if p, err := f.proxy(); err == nil {
			return p.String()
		}
		return "…"
	}
	return value
}
