//go:build race

package delivery_test

// droppedByPool is how much is allocated as sync.Pool loses things at random under
// the race detector.
const droppedByPool = 8

// idleSubscriptions are fewer here: what one takes is the same.
const idleSubscriptions = 25_000
