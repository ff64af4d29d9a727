package h1

import (
	"net"
	"time"
)

// lookTime is how long a look takes at a connection that is no socket of ours, or on
// a system where sockets cannot be read without waiting.
const lookTime = time.Millisecond

// quiet tells whether nothing has come on a connection, neither bytes nor its end:
// both are no answer to what is sent next. step does the same by itself.
func (x *exchange) quiet(cn *conn) bool {
	switch {
	case cn.raw != nil:
		quiet := false
		err := cn.raw.Read(func(fd uintptr) bool { quiet = nothingThere(fd); return true })
		return err == nil && quiet
	case cn.socket != nil && cn.socket.raw != nil:
		return cn.quietTLS()
	}
	return x.limit(cn.nc.SetReadDeadline, lookTime) && readsNothing(cn.nc) && x.lift(cn) &&
		(cn.socket == nil || cn.socket.between())
}

// quietTLS is quiet for a connection with TLS. It looks at what crypto/tls has read already, and
// then at the socket.
func (cn *conn) quietTLS() bool {
	return cn.readsNothing(readNow) && cn.socket.between()
}

// emptyTLS reports whether crypto/tls has read nothing that it has not returned.
func (cn *conn) emptyTLS() bool { return cn.readsNothing(readNothing) && cn.socket.between() }

func (cn *conn) readsNothing(how reading) bool {
	cn.socket.reading = how
	nothing := readsNothing(cn.nc)
	cn.socket.reading = readWaits
	return nothing
}

// hasSomething reports whether bytes or the end have arrived on an idle connection. It is false for
// a connection that cannot be read without waiting.
func (cn *conn) hasSomething() bool {
	raw := cn.raw
	if cn.socket != nil {
		raw = cn.socket.raw
	}
	something := false
	if raw != nil {
		_ = raw.Control(func(fd uintptr) { something = !empty(fd) })
	}
	return something
}

// stillQuiet is quiet for a connection that may have a deadline for reading.
func (x *exchange) stillQuiet(cn *conn) bool {
	return (!x.limited || x.lift(cn)) && x.quiet(cn)
}

// lift takes a deadline for reading away again. It must not undo a breaking off.
func (x *exchange) lift(cn *conn) bool {
	c := x.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.broken != nil || cn.nc.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	x.limited = false
	return true
}

// readsNothing tells whether a read ends by its deadline.
func readsNothing(nc net.Conn) bool {
	var one [1]byte
	n, err := nc.Read(one[:])
	timeout, ok := err.(net.Error)
	return n == 0 && ok && timeout.Timeout()
}
