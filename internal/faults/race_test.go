//go:build race

package faults_test

// callsEach is how many calls of a name fail in the fault table, in a life of their own
// each: few for the race detector, which is slow.
const callsEach = 1
