package redisstore

import "time"

// SetTakeover makes the store's takeover shorter than an operator may, so that tests
// need not wait. It comes before Shards.Run.
func (db *DB) SetTakeover(d time.Duration) { db.engine.cfg.Takeover = d }

// The records of cursors, for tests of what cannot be read.
var (
	EncodePosition = encodePosition
	DecodePosition = decodePosition
	EncodeGap      = encodeGap
	DecodeGap      = decodeGap
)
