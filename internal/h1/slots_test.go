package h1_test

import (
	"testing"
	"testing/synctest"
)

// A handshake whose context ends just as it gets a slot may still write: what crypto/tls had put
// aside. It must not stay in line for a slot that nobody would give back.
func TestSlotAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, newPlace(t, 0, 0).config())
		for range 20 {
			client.EndAsItGetsASlot(synctest.Wait)
			free, begun, ready := client.Paced()
			equal(t, "free slots", free, client.Slots())
			equal(t, "begun", begun, 0)
			equal(t, "in line", ready, 0)
		}
	})
}
