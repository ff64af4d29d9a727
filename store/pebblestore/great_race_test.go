//go:build race

package pebblestore_test

// greatBody is small for the race detector, which is slow with many bytes. It does
// not fit into a memtable of the tests all the same.
const greatBody = 4 << 20
