//go:build race

package together

// perProcessor is how many such tests run at a time for each processor: under the race detector
// the programs that they start take several times as much of it.
const perProcessor = 2
