// Package redisstore keeps everything of a hub in Redis, for operators who outgrow one machine:
// several hub processes share one Redis, and each owns a fair part of the shards.
//
// Acknowledged data is as durable as that Redis is configured to be: DB.Ready looks at its
// configuration and reports possible losses. Every change is one script, so that it is made whole or
// not at all, and is refused whole where the server's memory is full. The client never repeats a
// command, as a script whose answer was lost may have run.
//
// A server that was restarted or replaced may have lost the end of its acknowledged data. The store
// gives no number twice all the same, neither a sequence number nor a lease epoch. The first number
// under a new server begins above any that the one before can have given (see fresh).
//
// docs/redis-keys.md describes the keys, their types and their growth.
package redisstore
