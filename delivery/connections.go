package delivery

// Connections is what an HTTPSender holds to send by, and what it has done. Memory is by
// estimate, in bytes.
type Connections struct {
	// Open is the number of connections, those being opened included, Idle that of those kept for
	// the next request. Idle ones are closed where more than MaxOpen are open.
	Open, Idle, MaxOpen int
	// IdleBytes is what the idle ones take, MaxIdleBytes what they may.
	IdleBytes, MaxIdleBytes int64
	// SessionBytes is what the TLS sessions take by which connections can be made for less,
	// MaxSessionBytes what they may.
	SessionBytes, MaxSessionBytes int64
	// Hosts is the number of hosts with connections, RememberedHosts that of the others of which
	// there is a session.
	Hosts, RememberedHosts int
	// Plain counts the connections opened without TLS, Full those with a full handshake and Resumed
	// those that resumed a session; Dropped those closed while idle, for want of files or memory.
	Plain, Full, Resumed, Dropped uint64
}

// Connections returns how things stand.
func (s *HTTPSender) Connections() Connections {
	now := s.client.Stats()
	return Connections{
		Open: now.Conns, Idle: now.Idle, MaxOpen: s.limits.MaxConns,
		IdleBytes: now.IdleBytes, MaxIdleBytes: s.limits.IdleBytes,
		SessionBytes: now.SessionBytes, MaxSessionBytes: s.limits.SessionBytes,
		Hosts: now.Hosts, RememberedHosts: now.Remembered,
		Plain: now.Opened, Full: now.Handshakes, Resumed: now.Resumed, Dropped: now.Dropped,
	}
}
