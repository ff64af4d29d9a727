// Package report holds what operators ask about deliveries: how it stands with subscriptions,
// notifications, topics and attempts.
package report

import (
	"carillon/delivery"
	"carillon/subscription"
)

// State is what a subscription does at the moment.
type State uint8

// The states, as an operator looks at them.
const (
	StateIdle     State = iota // it has got everything
	StateReady                 // it has something to get, and waits for its turn
	StateInFlight              // an attempt is under way
	StateFailing               // its last attempt failed, and it waits for the next
)

var stateNames = [...]string{"idle", "ready", "in_flight", "failing"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Standing is how it stands with a subscription.
type Standing struct {
	Subscription subscription.Subscription // without its Secret
	Signed       bool                      // it has one
	State        State
	Position     delivery.Position
	Head         delivery.Seq // of its topic, as far as is known
	Gapped       bool         // it has a gap that was not replayed
}
