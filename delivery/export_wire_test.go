package delivery

// Wire is what the attempts on one notification share.
type Wire = wire

// Sharing returns the attempt as the Dispatcher makes it, where subscriptions may have
// the same secret or not.
func Sharing(a *Attempt, w *Wire, secrets bool) *Attempt {
	shared := *a
	shared.wire, shared.shared = w, secrets
	return &shared
}

// Signatures is how many signatures are kept.
func (w *wire) Signatures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.signatures)
}
