package redisstore

import (
	"context"
	"fmt"
)

// countScript counts the members.
//
//	KEYS  1 members
//	ARGV  none
//
// It returns how many have not been silent for too long.
var countScript = reads("count members", `
return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now()), '+inf')
`)

// Processes tells how many processes share the work on the store at the moment:
// those that run Shards.Run. One that died counts until its Takeover is over.
func (db *DB) Processes(ctx context.Context) (int, error) {
	value, err := db.engine.run(ctx, countScript, []string{db.engine.keys.members()})
	if err != nil {
		return 0, fmt.Errorf("count the processes: %w", err)
	}
	n, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("count the processes: an answer of the type %T", value)
	}
	return int(n), nil
}
