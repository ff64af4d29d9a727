// Package redisstore keeps everything of a hub in Redis, for operators who outgrow
// one machine: several hub processes share one Redis, and each owns a fair part of
// the shards.
//
// What was acknowledged is as durable as that Redis is configured to be: DB.Ready
// looks at its configuration and says what could be lost. Every change is one
// script, so that it is made whole or not at all, and is refused whole where
// the server's memory is full. Commands are never repeated by the client, as a
// script whose answer was lost may have run.
//
// A server that was restarted or replaced may have lost the end of what it
// acknowledged. Nothing here gives a number twice, all the same: the first
// number under a new server begins above any that the one before can have given
// (see fresh), be it a sequence number or a lease epoch.
//
// The keys, their types and their growth are described in docs/redis-keys.md.
package redisstore
