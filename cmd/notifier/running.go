package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"carillon/cmd/internal/program"
)

// runningNotifier says where the notifier is that has the data directory open.
type runningNotifier struct {
	Intake        string `default:"127.0.0.1:8091" placeholder:"HOST:PORT" help:"Listener for events of the notifier that has the directory open; or its URL."`
	IntakeTLSCert string `name:"intake-tls-cert" placeholder:"FILE" help:"The certificate that the notifier has as --intake-tls-cert."`
}

// client asks it.
func (f *runningNotifier) client() (*http.Client, error) {
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil}, // it is on this machine, or the operator's own
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if f.IntakeTLSCert != "" {
		trusting, err := program.Trusting(f.IntakeTLSCert)
		if err != nil {
			return nil, fmt.Errorf("--intake-tls-cert: %w", err)
		}
		client.Transport = &http.Transport{TLSClientConfig: trusting}
	}
	return client, nil
}

// intakeURL is the URL of its listener for events, without a slash at its end. why begins an error
// about a missing port.
func (f *runningNotifier) intakeURL(why string) (string, error) {
	base := f.Intake
	if !strings.Contains(base, "://") {
		host, port, err := net.SplitHostPort(base)
		if err != nil || port == "0" || port == "" {
			return "", fmt.Errorf("%s--intake must be its address with the port, not %q", why, f.Intake)
		}
		if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
			host = "127.0.0.1"
		}
		base = "http://" + net.JoinHostPort(host, port)
		if f.IntakeTLSCert != "" {
			base = "https://" + net.JoinHostPort(host, port)
		}
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("--intake %q is neither HOST:PORT nor the URL of a listener", f.Intake)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// refusedBy is a notifier's answer as an error.
func refusedBy(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
	if err != nil {
		return fmt.Errorf("the notifier's answer: %w", err)
	}
	return refusal(resp, text)
}

func refusal(resp *http.Response, text []byte) error {
	said := strings.TrimSpace(string(text))
	if strings.ContainsFunc(said, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		said = fmt.Sprintf("%q", said)
	}
	return fmt.Errorf("the notifier refuses it (%s): %s", resp.Status, said)
}
