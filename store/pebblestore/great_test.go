//go:build !race

package pebblestore_test

// greatBody is the largest body that a hub takes.
const greatBody = 52_428_800

const slowness = 1
