package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"

	"carillon/notifier"
)

// tokenVariable may have the token for the hub. It is no flag: a command line can be seen by
// every user of the machine.
const tokenVariable = "NOTIFIER_HUB_TOKEN"

// maxToken is the longest token, bytes. It refuses a file that cannot be a token.
const maxToken = 512

// hubToken is the token for the hub, from the environment or from a file, which is read
// again when the hub refuses it.
type hubToken struct {
	mu      sync.Mutex
	file    string         // "": it is from the environment; guarded by mu
	current notifier.Token // guarded by mu
}

var _ notifier.Tokens = (*hubToken)(nil)

// hubToken returns the configured token, or nil.
func (f *flags) hubToken() (*hubToken, error) {
	given := os.Getenv(tokenVariable)
	switch {
	case given == "" && f.HubTokenFile == "":
		return nil, nil
	case given != "" && f.HubTokenFile != "":
		return nil, fmt.Errorf("there are %s and --hub-token-file: keep one", tokenVariable)
	case given != "":
		token, err := parseToken(given)
		if err != nil {
			return nil, fmt.Errorf("%s %w", tokenVariable, err)
		}
		return &hubToken{current: token}, nil
	}
	token, err := readToken(f.HubTokenFile)
	if err != nil {
		return nil, err
	}
	return &hubToken{file: f.HubTokenFile, current: token}, nil
}

// Token implements notifier.Tokens.
func (h *hubToken) Token() notifier.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// Renew implements notifier.Tokens. One set may have found another token already.
func (h *hubToken) Renew(refused notifier.Token) (notifier.Token, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == "" || h.current != refused {
		return h.current, nil
	}
	token, err := readToken(h.file)
	if err == nil {
		h.current = token
	}
	return h.current, err
}

// take takes what a reload found.
func (h *hubToken) take(fresh *hubToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file, h.current = fresh.file, fresh.current
}

func readToken(name string) (notifier.Token, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("--hub-token-file: %w", err)
	}
	defer file.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, 2*maxToken))
	if err != nil {
		return "", fmt.Errorf("--hub-token-file: %w", err)
	}
	token, err := parseToken(string(text))
	if err != nil {
		return "", fmt.Errorf("--hub-token-file: %s %w", name, err)
	}
	return token, nil
}

// parseToken reads a token, with an end of line or without. Errors do not tell it.
func parseToken(text string) (notifier.Token, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errors.New("is empty")
	}
	// RFC 6750 §2.1.
	if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/=", r))
	}) {
		return "", errors.New("holds no token: it is one line, as hub source add printed it")
	}
	return notifier.Token(text), nil
}

// warnToken logs a warning if others on the way can read the token.
func (f *flags) warnToken(logger *slog.Logger) {
	if u, err := url.Parse(f.Hub); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		logger.Warn(
			"the token goes to the hub without TLS: a reader of the traffic can publish in your name. Use an https URL as --hub",
			"hub", f.Hub,
		)
	}
}

func loopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.Unmap().IsLoopback()
}
