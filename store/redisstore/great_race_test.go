//go:build race

package redisstore_test

// greatBody is small for the race detector, which is slow with many bytes.
const greatBody = 4 << 20
