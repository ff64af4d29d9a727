//go:build race

package send_test

// droppedByPool is how much is allocated as sync.Pool loses things at random under
// the race detector.
const droppedByPool = 8
