//go:build race

package dispatch_test

// idleSubscriptions are fewer here: what one takes is the same.
const idleSubscriptions = 25_000
