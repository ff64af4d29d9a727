package main

import (
	"context"
	"log/slog"
	"strings"

	"carillon/hub"
	"carillon/internal/egress"
	"carillon/operator/api"
	"carillon/source"
)

// publisherFlags say who may publish.
type publisherFlags struct {
	Publishers string `enum:"open,registered" default:"open" help:"Who may publish: open, whoever reaches the hub, to topics that name it; or registered, only Sources that hub source add has registered, each with a token and the prefixes of its topics."`
}

// joinSources makes the registry of Sources, where only those may publish.
func (h *house) joinSources(f publisherFlags) (err error) {
	if f.Publishers != api.Registered {
		return nil
	}
	h.sources, err = source.NewRegistry(h.store.Sources, source.Config{}, h.logger, h.metrics)
	return err
}

// publishers is who may publish, for the hub; nil: everybody.
func (h *house) publishers() hub.Sources {
	if h.sources == nil {
		return nil
	}
	return h.sources
}

// mode is the value of --publishers.
func (h *house) mode() string {
	if h.sources == nil {
		return api.Everybody
	}
	return api.Registered
}

// warnPublishers tells of tokens that others could read.
func (h *house) warnPublishers(logger *slog.Logger) {
	if h.sources != nil && strings.HasPrefix(strings.ToLower(h.url), "http:") && !egress.LoopbackURL(h.url) {
		logger.Warn("the hub's URL is not https: whoever sees the requests of Sources can publish with their tokens", "url", h.url)
	}
}

// readSources reads the Sources before the hub says that it is ready, and says what to do
// where there are none. Where they cannot be read, runSources goes on trying.
func (h *house) readSources(ctx context.Context) {
	if h.sources == nil {
		return
	}
	h.warnPublishers(h.logger)
	if err := h.sources.Refresh(ctx); err == nil && h.sources.Count() == 0 {
		h.logger.Warn("no Source is registered: nobody can publish. Register one with the same --store: hub source add NAME --topic-prefix URL")
	}
}

// runSources keeps what is known of Sources young until ctx ends.
func (h *house) runSources(ctx context.Context) error {
	if h.sources == nil {
		return nil
	}
	return h.sources.Run(ctx)
}
