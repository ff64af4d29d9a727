// Command hub is a WebSub hub that relays ResourceSync change notifications. It
// starts on a bare machine and keeps everything in one directory:
//
//	hub --listen 127.0.0.1:8080 --store pebble:hub-data
//
// Each flag has an environment variable (HUB_LISTEN, …) and a line in the file
// that --config names. When it is ready it prints one line with its addresses on
// stdout; logs go to stderr. SIGTERM and SIGINT end it in order.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"carillon/cmd/internal/program"
)

const summary = "A WebSub hub that relays ResourceSync change notifications: in order for each subscriber, with nothing lost."

func main() { os.Exit(program.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	if err := program.Parse("hub", summary, &f, args, stdout); err != nil {
		if errors.Is(err, program.ErrDone) {
			return 0
		}
		return program.Fail(stderr, "hub", err)
	}
	logger := program.Logger(stderr, f.LogLevel)
	h, err := open(ctx, f, logger)
	if err != nil {
		return program.Fail(stderr, "hub", err)
	}
	defer h.close()
	program.Ready(stdout, "hub",
		program.Address{Name: "listen", Value: h.public.Addr().String()},
		program.Address{Name: "admin", Value: h.operator.Addr().String()},
		program.Address{Name: "url", Value: h.url})
	if err := h.run(ctx); err != nil {
		return program.Fail(stderr, "hub", err)
	}
	return 0
}
