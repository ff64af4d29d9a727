package api

import "slices"

// Route is one operation of the API, for tests.
type Route struct {
	Method, Path string
	Parameters   []string
}

// Routes are all operations.
func Routes() (all []Route) {
	for _, o := range routes() {
		all = append(all, Route{o.method, o.path, slices.Clone(o.parameters)})
	}
	return all
}

// Clients is how many have sent wrong tokens and are remembered.
func (a *Auth) Clients() int {
	a.pace.mu.Lock()
	defer a.pace.mu.Unlock()
	return len(a.pace.clients)
}

// Limits that tests come up to.
const (
	MaxStreams  = maxStreams
	MaxRequest  = maxRequest
	MaxWrong    = maxWrong
	MaxClients  = maxClients
	MaxSessions = maxSessions
	SessionIdle = sessionIdle
	SessionMax  = sessionMax
)
