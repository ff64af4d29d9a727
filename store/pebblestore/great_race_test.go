//go:build race

package pebblestore_test

// greatBody is small for the race detector, which is slow with many bytes. It does
// not fit into a memtable of the tests all the same.
const greatBody = 4 << 20

// slowness is by how much less is done under the race detector where the number proves nothing.
const slowness = 4
