package program

import (
	"net"
	"os"
	"time"
)

// Limits that tests hold servers to.
const (
	ReadHeaderTimeout = readHeaderTimeout
	ReadTimeout       = readTimeout
	IdleTimeout       = idleTimeout
	WriteStall        = writeStall
	MaxHeaderBytes    = maxHeaderBytes
	LookAtFilesEvery  = lookAtFilesEvery
)

// Over is Listen on a listener that there is, with bounds on its connections.
func Over(ln net.Listener, e Endpoint, most, perClient int) (*Listener, error) {
	keeper, err := newKeeper(e)
	if err != nil {
		return nil, err
	}
	l := newListener(e, keeper, limits{most: most, perClient: perClient, perNetwork: 2 * perClient})
	l.use(ln)
	return l, nil
}

// Connections returns how many connections are open.
func (l *Listener) Connections() int { return l.limiter.count() }

// Closed returns how many connections were closed to make room, and how many clients
// were refused one.
func (l *Listener) Closed() (idle, refused int64) {
	return l.limiter.idleCut.Load(), l.limiter.refused.Load()
}

// Until is when the certificate in use expires.
func (l *Listener) Until() time.Time { return l.keeper.current.Load().Leaf.NotAfter }

// Asked returns what Main does at a second signal, and the cause that it gives to a context at
// the first.
func Asked(s os.Signal) (again func() bool, cause error) {
	a := &asked{Signal: s}
	return a.again, a
}
