package send

// Sharing returns the attempt as the Dispatcher makes it, where subscriptions may have
// the same secret or not.
func Sharing(a *Attempt, w *Wire, secrets bool) *Attempt {
	shared := *a
	shared.Wire, shared.Shared = w, secrets
	return &shared
}

// Signatures is how many signatures are kept.
func (w *Wire) Signatures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.signatures)
}
