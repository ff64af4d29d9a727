package dispatch

import (
	"fmt"
	"io"
)

// Format says what it is and nothing of what is in it: the secrets of subscriptions are.
func (d *Dispatcher) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "delivery.Dispatcher") }
