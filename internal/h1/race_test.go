//go:build race

package h1_test

// droppedByPool is how much is allocated as sync.Pool loses things at random under
// the race detector.
const droppedByPool = 8
