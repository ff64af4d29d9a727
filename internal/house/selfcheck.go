package house

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// selfCheck knows whether the hub's URL leads back to this hub. Publishers and subscribers know the hub by that
// URL only, and a wrong port or path, or a proxy that is not set up, would otherwise go unnoticed here.
type selfCheck struct {
	name  string                      // what users call the URL
	check func(context.Context) error // by the URL; nil: it leads back

	mu      sync.Mutex
	warning string // owned by mu
}

const (
	// askBackWithin bounds one try.
	selfCheckTimeout = 10 * time.Second
	// askBackEvery is the pause between two tries while the URL does not lead back.
	selfCheckEvery = 10 * time.Minute
	// maxBackAnswer bounds what is read of an answer, bytes.
	maxSelfCheckBody = 4 << 10
)

// selfCheckAfter are the pauses before the tries of a start: a proxy may take a while to see that the hub
// is there.
var selfCheckAfter = [...]time.Duration{5 * time.Second, 15 * time.Second, 40 * time.Second}

// run asks until the URL leads back, or ctx ends. It warns after the tries of the start have failed.
func (b *selfCheck) run(ctx context.Context, logger *slog.Logger) {
	for i := 0; ; i++ {
		pause := selfCheckEvery
		if i < len(selfCheckAfter) {
			pause = selfCheckAfter[i]
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		err := b.check(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if b.Warning() != "" {
				b.warn(nil)
				logger.Info("--url leads back to this hub now")
			}
			return
		case i == len(selfCheckAfter)-1:
			logger.Warn("--url does not seem to lead back to this hub", "error", err)
			b.warn(err)
		case i >= len(selfCheckAfter):
			b.warn(err)
		}
	}
}

func (b *selfCheck) warn(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warning = ""
	if err != nil {
		b.warning = fmt.Sprintf("%s does not seem to lead back to this hub: %v. Check its port and path, and the proxy before the hub. "+
			"Where this machine sees other names or routes than the rest of the network (split DNS, NAT), others may reach it all the same", b.name, err)
	}
}

// Warning returns what the operator is to know; empty if there is nothing.
func (b *selfCheck) Warning() string {
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.warning
}

// selfCheckClient returns the client that asks by the hub's own URL, with the TLS that is given. It
// follows no redirects: a POST would not be.
func selfCheckClient(with *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, MaxResponseHeaderBytes: maxSelfCheckBody, TLSClientConfig: with,
		},
		Timeout:       selfCheckTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// checkAddress asks at the address that this process alone has below its URL. Where processes share a store,
// the answer of another one that has the same URL will do.
func checkAddress(ctx context.Context, client *http.Client, address, hubURL string, shared bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return errors.Unwrap(err) // without the address
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxSelfCheckBody))
	same := resp.StatusCode == http.StatusNotFound && strings.HasSuffix(
		strings.TrimSpace(string(text)), " The hub is at "+hubURL,
	)
	switch {
	case resp.StatusCode == http.StatusNoContent, same && shared:
		return nil
	case same:
		return errors.New("another hub answers there")
	}
	return fmt.Errorf("status %d came from there, which is not this hub's answer", resp.StatusCode)
}
