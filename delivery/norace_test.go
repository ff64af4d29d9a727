//go:build !race

package delivery_test

const droppedByPool = 0

// idleSubscriptions is of how many TestIdleSubscriptions takes the mean.
const idleSubscriptions = 100_000
