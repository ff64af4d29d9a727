package notifier

import (
	"fmt"
	"net/http"
	"slices"
)

// gate says which events are taken.
type gate struct {
	sets   []string
	within []string // take no events from outside
}

// knows reports whether the event names sets that are served here, and only those.
func (g gate) knows(e *Event) error {
	if len(e.Sets) == 0 {
		return &InputError{Field: "sets", Reason: "is missing"}
	}
	for _, set := range e.Sets {
		if !slices.Contains(g.sets, set) {
			return &InputError{Field: "sets", Reason: fmt.Sprintf("names %q, which is no set here", shown(set))}
		}
	}
	return nil
}

// admits reports whether the event may come from outside to the sets that it names.
func (g gate) admits(e *Event) error {
	if err := g.knows(e); err != nil {
		return err
	}
	for _, set := range e.Sets {
		if g.open(set) != nil {
			return &InputError{Field: "sets", Reason: fmt.Sprintf("names %q, which takes no events from outside", set)}
		}
	}
	return nil
}

// open refuses what would change a set from outside whose events come from within.
func (g gate) open(set string) error {
	if slices.Contains(g.within, set) {
		return refuse(
			http.StatusForbidden, "The set "+set+" takes no events from outside: the notifier makes them itself.",
		)
	}
	return nil
}
