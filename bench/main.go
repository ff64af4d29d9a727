// Command bench measures what the hub adds to the HTTP itself: deliveries per
// second and CPU time per delivery of a real hub process, beside bare client
// loops that do nothing else, against the same sink in the same run. It also
// measures what an idle subscription costs. Where a redis-server is installed, a
// hub on Redis runs in the same rounds, and the commands that the server carries
// out for it are counted.
//
//	go run ./bench
//
// Every figure of the hub is durable, ordered and signed (sha256). Absolute
// figures depend on the machine and the moment; quote the ratios. It runs on
// this machine only, through the loopback interface, and ends by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// limit ends a run that hangs.
const limit = 30 * time.Minute

// plan is what one run measures.
type plan struct {
	callbacks    int
	publications int
	connections  int
	bodyBytes    int
	rounds       int
	idle         int
	rest         time.Duration
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var p plan
	var c child
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&p.callbacks, "callbacks", 10_000, "subscriptions to the topic that is published to")
	flags.IntVar(&p.publications, "publications", 6, "notifications published in each round")
	flags.IntVar(&p.connections, "connections", 128, "connections of the bare loops")
	flags.IntVar(&p.bodyBytes, "body", 1024, "bytes of each notification")
	flags.IntVar(&p.rounds, "rounds", 5, "rounds; each runs every contestant once")
	flags.IntVar(&p.idle, "idle", 100_000, "idle subscriptions to weigh; 0 leaves that out")
	flags.DurationVar(&p.rest, "rest", 10*time.Second, "how long the hub on Redis is watched at rest, for the commands of its leases")
	flags.StringVar(&c.role, "role", "", "for the processes that bench starts itself")
	flags.StringVar(&c.target, "target", "", "for the processes that bench starts itself")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var err error
	if c.role != "" {
		err = c.run(ctx, p, stdout)
	} else {
		err = compare(ctx, p, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}
