package fetch

// Known returns how many hosts are remembered.
func Known(h *Hosts) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.known)
}
