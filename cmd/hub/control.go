package main

import (
	"context"

	"carillon/cmd/internal/program"
	"carillon/operator/api"
	"carillon/operator/socket"
	"carillon/store/pebblestore"
)

// A hub has its Pebble directory to itself while it runs. What works on the store
// meanwhile (hub backup, hub topics, …) asks the hub, by HTTP over a Unix socket in
// that directory. What is asked is the API of package api, as on the operator's listener, and
// a backup. Where no hub runs, or with Redis, the command opens the store and answers
// itself, by the same handlers (openClient).

// controlSocket is where the socket is of a store in a directory.
func controlSocket(dir string) socket.Place {
	return socket.Place{Dir: dir, Name: pebblestore.ControlSocket, Scratch: pebblestore.ScratchSuffix}
}

// openControlSocket makes the socket of a hub. Without it the hub does all but answer
// commands.
func (h *house) openControlSocket() {
	if h.store.Directory == "" {
		return
	}
	made, err := controlSocket(h.store.Directory).Listen()
	if err != nil {
		h.logger.Warn("there is no control socket: commands that need the running hub (backup, topics, source, …) are not available",
			"directory", h.store.Directory, "error", err)
		return
	}
	h.control = made
}

// serveControl answers commands until ctx ends, then finishes what is under way.
func (h *house) serveControl(ctx context.Context) error {
	if h.control == nil {
		return nil
	}
	return program.Serve(ctx, h.control, api.API(api.Config{
		Desk: h.desk, Version: program.Version, Publishers: h.mode(), Level: h.level, Stopping: ctx.Done(), Backup: h.store.backup, Logger: h.logger,
	}), h.logger)
}
