package main

import (
	"log/slog"
	"testing"

	"carillon"
	"carillon/delivery/dispatch"
	"carillon/internal/house"
)

// openWith opens hubs with hooks, which carillon.Open has not.
func openWith(hooks house.Hooks) func(carillon.Config) (openedHub, error) {
	return func(cfg carillon.Config) (openedHub, error) {
		h, err := house.Open(house.Config(cfg), hooks)
		if err != nil {
			return nil, err
		}
		return hooked{h}, nil
	}
}

// hooked is a *carillon.Hub with hooks.
type hooked struct{ *house.House }

// Loading implements openedHub.
func (h hooked) Loading() carillon.Loading {
	subscriptions, shards, of, done := h.House.Loading()
	return carillon.Loading{Subscriptions: subscriptions, Shards: shards, Of: of, Done: done}
}

// deliveryConfig returns what the flags say of deliveries and logs.
func deliveryConfig(t *testing.T, args ...string) dispatch.Config {
	t.Helper()
	f := parseServe(t, args...)
	cfg, err := f.config(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return house.Config(cfg).Delivery()
}

// outgoingConnections returns how many connections to callbacks and topics a hub may have.
func outgoingConnections() int {
	_, _, outgoing := house.Connections()
	return outgoing
}
