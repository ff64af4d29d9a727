package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"carillon"

	"carillon/cmd/internal/program"
	"carillon/internal/egress"
	"carillon/internal/house"
)

var (
	_ program.Looker = (*serveCommand)(nil)
	_ program.Shower = (*serveCommand)(nil)
)

// Look implements program.Looker: all that can be seen of the settings of a hub without a
// store and without listeners.
func (f *serveCommand) Look(_ context.Context, logger *slog.Logger) error {
	for _, warning := range f.exposed() {
		logger.Warn(warning)
	}
	cfg, err := f.config(logger)
	all := []error{err, f.publicEndpoint(logger).Check(f.URL), f.adminEndpoint(logger).Check(""), f.lookAtToken(logger)}
	if f.URL == "" {
		all = append(all, program.NeedsURL(f.Listen))
		cfg.URL = "http://127.0.0.1/websub/" // as the listener's will be
	}
	return errors.Join(append(all, house.Config(cfg).CheckEnvironment())...) // Validate has done the rest
}

// stopping says how long the end of the hub may take.
func (f *serveCommand) stopping() carillon.Config {
	return carillon.Config{StopWithin: program.StopWithin - f.Drain}
}

// publicEndpoint and adminEndpoint are the listeners.
func (f *serveCommand) publicEndpoint(logger *slog.Logger) program.Endpoint {
	most, _ := carillon.Connections()
	return program.Endpoint{
		Flag: "listen", Address: f.Listen, TLS: f.TLS, Most: most, Proxies: f.TrustedProxy,
		Finish: f.stopping().FinishWithin(), Logger: logger,
	}
}

func (f *serveCommand) adminEndpoint(logger *slog.Logger) program.Endpoint {
	_, most := carillon.Connections()
	return program.Endpoint{
		Flag: "admin", Address: f.Admin, TLS: f.AdminTLS, Most: most, Operators: true, Logger: logger,
	}
}

// lookAtToken reads the operator's token, and asks whether the operator's listener may be
// where it is to be.
func (f *serveCommand) lookAtToken(logger *slog.Logger) error {
	return errors.Join(f.guard(loopbackOnly(f.Admin), logger), lookForAdminToken(f.AdminTokenFile, logger))
}

// loopbackOnly reports whether only this machine can reach a listener at the address, judged without
// asking for a name's addresses.
func loopbackOnly(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // it is refused for that
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// Shown implements program.Shower.
func (f *serveCommand) Shown(flag, value string) string {
	switch {
	case flag == "store":
		return f.engineConfig().Shown()
	case flag == "proxy" && strings.Contains(value, "@"):
		if p, err := egress.NewProxy(f.Proxy); err == nil {
			return p.String()
		}
		return "…"
	}
	return value
}
