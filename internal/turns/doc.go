// Package turns decides who is next where many wait for few slots.
//
// A Queue holds what waits, in one lane for each peer. Peers take turns, so a peer with
// much to do holds up itself alone. Bounds apply to all and to each peer:
//
//	PushAt ──▶ until its time ──┐
//	Push ───────────────────────┴──▶ lane of its peer, first in, first out
//	                                      │ lanes with something ready and a slot left, in turn
//	                                      ▼
//	                   Next ──▶ at work, Config.Slots ── SlowAfter ──▶ slow, Config.SlowSlots
//	                                      │                              │
//	                                    Done ◀───────────────────────────┘
//
// One that is at work for Config.SlowAfter gives its slot back and continues among the slow
// ones, while these are not too many: peers that hang do not hold up peers that answer.
// A lane can rest until a time, and begin among the slow ones (Judge).
//
// A Queue starts no goroutine and has no mutex: its owner guards it, and asks it for the next
// one when Wake says so. A Gate is a Queue of goroutines that wait. A Timetable is the part
// of a Queue that waits for a time.
//
// The package knows nothing of requests. Package hub fetches and checks topics by it, package
// subscription asks topics and callbacks, package egress asks name servers.
package turns
