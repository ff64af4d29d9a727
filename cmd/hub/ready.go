package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"carillon/cmd/internal/program"
)

// readyCommand asks a running hub whether it is ready, for health checks where
// there is no other program to ask with.
type readyCommand struct {
	Admin   string        `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"The operator's listener of the hub."`
	TLSCert string        `name:"admin-tls-cert" placeholder:"FILE" help:"Ask by https, as the hub has --admin-tls-cert: this is the same file. Its certificate is good whatever the address is; another must be one that this machine trusts."`
	Path    string        `env:"-" default:"/readyz" help:"What to ask for: /readyz, or /healthz, which the intake listener of a notifier has, too."`
	Timeout time.Duration `env:"-" default:"4s" help:"How long to wait for the answer."`
}

// Validate refuses what cannot be asked.
func (f *readyCommand) Validate() error {
	if f.Timeout <= 0 {
		return fmt.Errorf("--timeout must be more than 0, not %s", f.Timeout)
	}
	if !strings.HasPrefix(f.Path, "/") {
		return fmt.Errorf("--path must begin with a slash, not %s", f.Path)
	}
	return nil
}

// maxReadyAnswer bounds what is repeated of an answer, in bytes.
const maxReadyAnswer = 4 << 10

func (f *readyCommand) run(ctx context.Context, _ *slog.Logger, _ io.Reader, stdout, _ io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	scheme, transport := "http://", &http.Transport{Proxy: nil, DisableKeepAlives: true}
	if f.TLSCert != "" {
		var err error
		scheme = "https://"
		if transport.TLSClientConfig, err = program.Trusting(f.TLSCert); err != nil {
			return fmt.Errorf("--admin-tls-cert %s: %w", f.TLSCert, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+reachable(f.Admin)+f.Path, nil)
	if err != nil {
		return fmt.Errorf("--admin %s: %w", f.Admin, err)
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReadyAnswer))
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	answer := strings.TrimSpace(string(text))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s: %s", resp.Status, answer)
	}
	fmt.Fprintln(stdout, answer)
	return nil
}

// reachable is the address to ask at, for a listener that may be on every
// address: the hub's own --admin can be given as it is.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
