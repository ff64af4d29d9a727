//go:build !race

package send_test

const droppedByPool = 0
