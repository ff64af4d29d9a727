package destination

import "time"

// Status is how a subscription stands.
type Status struct {
	// Subscribed: the hub has verified it, and its lease lasts.
	Subscribed bool
	Topic, Hub string    // while it is Subscribed
	LeaseEnd   time.Time // likewise
	// Memory is where the hub can be asked for what it delivered before; empty where it
	// has not told.
	Memory string
	// LastDelivery is when the last delivery came that was taken, since the start; zero: none did.
	LastDelivery time.Time
}

// Status tells how the subscription stands.
func (d *Destination) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Status{LastDelivery: d.last}
	if sub := d.state.Subscription; sub != nil {
		s.Memory = sub.Memory
		if s.Subscribed = sub.active(time.Now()); s.Subscribed {
			s.Topic, s.Hub, s.LeaseEnd = sub.Topic, sub.Hub, sub.LeaseEnd
		}
	}
	return s
}
