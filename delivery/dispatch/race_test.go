//go:build race

package dispatch_test

// idleSubscriptions are fewer here: each takes the same.
const idleSubscriptions = 25_000
