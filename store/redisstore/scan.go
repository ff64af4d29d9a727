package redisstore

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// The commands that list a set, or a hash: fields and values by turns.
const (
	scanSet  = "sscan"
	scanHash = "hscan"
)

// scan gives a set or a hash in parts of about count elements, those that are there from the beginning
// to the end once each. It keeps their names meanwhile, as the server may come past one twice. An
// error is the last that comes.
func (e *engine) scan(ctx context.Context, command, key string, count int) iter.Seq2[[]string, error] {
	width := 1
	if command == scanHash {
		width = 2
	}
	return func(yield func([]string, error) bool) {
		seen := make(map[string]struct{})
		for cursor := uint64(0); ; {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			cmd := redis.NewScanCmd(ctx, nil, command, key, cursor, "count", count)
			_ = e.client.Process(ctx, cmd) // the command has its error
			part, next, err := cmd.Result()
			if err != nil {
				yield(nil, e.failed(ctx, err))
				return
			}
			if !yield(unseen(part, width, seen), nil) || next == 0 {
				return
			}
			cursor = next
		}
	}
}

// unseen leaves of a part, in its place, what was not seen before.
func unseen(part []string, width int, seen map[string]struct{}) []string {
	kept := part[:0]
	for ; len(part) >= width; part = part[width:] {
		if _, again := seen[part[0]]; !again {
			seen[part[0]] = struct{}{}
			kept = append(kept, part[:width]...)
		}
	}
	return kept
}

// ahead gives what seq gives, and meanwhile lets it go on to the next: so the server
// works while what it gave before is taken in. seq gets a context that ends with the
// loop, and has returned when the loop is over.
func ahead(
	ctx context.Context, seq func(ctx context.Context) iter.Seq2[[]string, error],
) iter.Seq2[[]string, error] {
	type given struct {
		part []string
		err  error
	}
	return func(yield func([]string, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		left := make(chan struct{})
		next := make(chan given, 1)
		go func() {
			defer close(next)
			for part, err := range seq(ctx) {
				select {
				case next <- given{part, err}:
				case <-left:
					return
				}
			}
		}()
		defer func() {
			stop()
			close(left)
			for range next { // until seq has returned
			}
		}()
		for g := range next {
			if !yield(g.part, g.err) {
				return
			}
		}
	}
}
