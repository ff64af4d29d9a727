package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"carillon/subscription"
)

// engine is the way to the server, or servers.
type engine struct {
	client redis.UniversalClient
	keys   keys
}

// failed turns trouble with the server into ErrUnavailable, and leaves the end of
// the caller's own context as it is.
func (e *engine) failed(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, subscription.ErrUnavailable) {
		return err
	}
	if ctxErr := ctx.Err(); errors.Is(ctxErr, context.Canceled) {
		return ctxErr
	}
	return fmt.Errorf("%w: %w", subscription.ErrUnavailable, err)
}
