package api_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/operator"
	"carillon/operator/api"
)

// fixture is a listener with a desk of its own.
type fixture struct {
	service *fakeService
	cfg     api.Config
	address string
}

const goodToken = "0123456789abcdef"

func newFixture(t *testing.T, change func(*api.Config)) *fixture {
	t.Helper()
	h := &fixture{service: newFakeService()}
	close(h.service.heard)
	h.cfg = api.Config{
		Service: h.service, Version: "1", Level: &fakeLevel{"info"}, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&h.cfg)
	}
	server := httptest.NewServer(api.Handler(h.cfg))
	t.Cleanup(server.Close)
	h.address = server.URL
	return h
}

// bareConfig is the Config of a listener without a desk.
func bareConfig() api.Config {
	return api.Config{Version: "1", Level: &fakeLevel{"info"}, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)}
}

// hanging is a desk whose store hangs.
type hanging struct{ *fakeService }

func (h *hanging) Sources(ctx context.Context) ([]operator.Source, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
