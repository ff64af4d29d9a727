package redisstore

import "context"

// Ready connects, checks the server and its settings, and prepares the store.
func (db *DB) Ready(ctx context.Context) error {
	return db.engine.failed(ctx, db.engine.client.Ping(ctx).Err())
}
