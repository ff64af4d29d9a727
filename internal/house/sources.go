package house

import (
	"context"
	"log/slog"
	"strings"

	"carillon/hub"
	"carillon/internal/egress"
	"carillon/operator/api"
	"carillon/source"
)

// publishers are those who may publish.
type publishers struct {
	registry *source.Registry // nil: everybody
	url      string           // of the hub
	logger   *slog.Logger
}

// mode returns the value of Config.Publishers.
func (p publishers) mode() string {
	if p.registry == nil {
		return api.Everybody
	}
	return api.Registered
}

// sources returns them for the hub; nil: everybody.
func (p publishers) sources() hub.Sources {
	if p.registry == nil {
		return nil
	}
	return p.registry
}

// read reads the Sources before the hub says that it is ready, and logs what to do if the
// registry is empty. If the read fails, run retries it.
func (p publishers) read(ctx context.Context) {
	if p.registry == nil {
		return
	}
	if strings.HasPrefix(strings.ToLower(p.url), "http:") && !egress.LoopbackURL(p.url) {
		p.logger.Warn(
			"the hub's URL is not https: a reader of the requests of Sources can publish with their tokens",
			"url", p.url,
		)
	}
	if err := p.registry.Refresh(ctx); err == nil && p.registry.Count() == 0 {
		p.logger.Warn(
			"no Source is registered: nobody can publish. Register one with the same --store: hub source add NAME --topic-prefix URL",
		)
	}
}

// run keeps what is known of Sources young until ctx ends.
func (p publishers) run(ctx context.Context) error {
	if p.registry == nil {
		return nil
	}
	return p.registry.Run(ctx)
}
