//go:build !race

package dispatch_test

// idleSubscriptions is of how many TestIdleSubscriptions takes the mean.
const idleSubscriptions = 100_000
