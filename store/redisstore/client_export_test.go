package redisstore

import "net"

// Steady is a connection as the client uses it.
func Steady(c net.Conn) net.Conn { return &steady{Conn: c} }

// SilenceTime is the client's limit on silence.
const SilenceTime = silenceTime
