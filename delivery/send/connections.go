package send

// Connections counts the connections of an HTTPSender, now and since it was made. Memory is
// estimated, in bytes.
type Connections struct {
	// Open is the number of connections that are open or being opened. Idle of these are kept for
	// the next request. The sender closes idle connections while more than MaxOpen are open.
	Open, Idle, MaxOpen int
	// IdleBytes is the memory of idle connections, MaxIdleBytes its bound.
	IdleBytes, MaxIdleBytes int64
	// SessionBytes is the memory of TLS sessions, by which a handshake costs less;
	// MaxSessionBytes is its bound.
	SessionBytes, MaxSessionBytes int64
	// Hosts is the number of hosts with connections, RememberedHosts that of hosts with a session
	// only.
	Hosts, RememberedHosts int
	// Plain counts connections opened without TLS, Full those with a full handshake, Resumed those
	// that resumed a session. Dropped counts idle connections closed for want of files or memory.
	Plain, Full, Resumed, Dropped uint64
}

// Connections counts the connections.
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
