//go:build !race

package redisstore_test

// greatBody is the largest body that a hub takes.
const greatBody = 52_428_800
