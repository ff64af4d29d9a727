package hub

import (
	"log/slog"
	"net/http"
)

// For the tests of package hub_test.

// AppendQuery appends the parameters, name and value in turn, to a callback.
func AppendQuery(callback string, namesAndValues ...string) string {
	var params []query
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		params = append(params, query{namesAndValues[i], namesAndValues[i+1]})
	}
	return appendQuery(callback, params...)
}

// NormalHub returns the form by which hub URLs are compared.
func NormalHub(raw string) string { return normalHub(raw) }

// ClientOf returns whose limits a request counts against.
func ClientOf(cfg Config, r *http.Request) string {
	return newClients(cfg.withDefaults(), slog.New(slog.DiscardHandler)).of(r)
}

// Clients is how many clients are remembered.
func (h *Hub) Clients() int {
	h.clients.mu.Lock()
	defer h.clients.mu.Unlock()
	return h.clients.known.Len()
}
