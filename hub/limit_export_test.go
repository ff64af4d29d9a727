package hub

// NewGate returns a gate, for the tests of package hub_test.
var NewGate = newGate

// Enter waits for a place.
var Enter = (*gate).enter
