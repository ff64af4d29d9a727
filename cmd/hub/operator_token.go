package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"carillon/cmd/internal/program"
	"carillon/internal/machine"
	"carillon/operator/api"
)

// operatorFlags say who may use the operator's listener.
type operatorFlags struct {
	AdminPprof     bool   `help:"Have the profiles of the process at /debug/pprof/ of the operator's listener, for go tool pprof. They need the operator's token; making one slows the hub down."`
	AdminTokenFile string `placeholder:"FILE" help:"File with the operator's token, which clients of the operator's listener must send; a changed one applies without a restart. A missing file is made, with a token in it. $HUB_ADMIN_TOKEN may have the token itself. Needed where --admin is not a loopback address."`
	AdminPlain     bool   `help:"Let the operator's listener speak plain HTTP on an address that is not loopback: in a private network, or behind a proxy with TLS. A reader of the traffic sees the token."`
}

// guardOperator returns the check of clients for the operator's listener at an address, or the reason
// why it cannot be opened so; nil: every client that reaches it may use it.
func (f *serveCommand) guardOperator(listener net.Addr, logger *slog.Logger) (*api.Token, error) {
	at, err := netip.ParseAddrPort(listener.String())
	if err := f.guard(err == nil && at.Addr().Unmap().IsLoopback(), logger); err != nil {
		return nil, err
	}
	return api.FindToken(os.Getenv(api.TokenVariable), f.AdminTokenFile, logger)
}

// guard refuses an operator's listener that is reached by others than this machine, and has
// no token, or lets it be read on the way.
func (f *serveCommand) guard(loopback bool, logger *slog.Logger) error {
	plain := f.AdminTLS == (program.TLS{})
	switch {
	case loopback:
	case f.AdminTokenFile == "" && os.Getenv(api.TokenVariable) == "":
		return fmt.Errorf("--admin %s is reached by others than this machine: give --admin-token-file FILE (it is made where there is none) "+
			"and --admin-tls-cert with --admin-tls-key or --admin-plain, or listen on a loopback address", f.Admin)
	case plain && !f.AdminPlain:
		return fmt.Errorf("--admin %s is reached by others than this machine, and without TLS they can read the operator's token on the way: "+
			"give --admin-tls-cert and --admin-tls-key, or --admin-plain where the network is your own", f.Admin)
	case plain:
		logger.Warn(
			"the operator's listener speaks plain HTTP: a reader of the traffic can take the operator's token",
			"admin", f.Admin,
		)
	}
	return nil
}

// lookForAdminToken is an error where api.FindToken would have one. It makes no file.
func lookForAdminToken(file string, logger *slog.Logger) error {
	_, err := os.Stat(file)
	if file == "" || os.Getenv(api.TokenVariable) != "" || !errors.Is(err, fs.ErrNotExist) {
		_, err = api.FindToken(os.Getenv(api.TokenVariable), file, logger)
		return err
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(dir); err != nil { // the directory is not created
		return fmt.Errorf("--admin-token-file: %s is not there and cannot be made: %w", file, err)
	}
	if err := machine.CheckDirectory(dir); err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	return nil
}
