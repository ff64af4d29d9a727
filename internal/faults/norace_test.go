//go:build !race

package faults_test

// callsEach is how many calls of a name fail in the fault table, see race_test.go.
const callsEach = 2
