//go:build unix

package program

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// errBound ends a Listen after the bind.
var errBound = errors.New("bound")

// bindable returns the error of binding a TCP address. It does not listen: a connection that
// arrived meanwhile would be lost.
func bindable(ctx context.Context, address string) error {
	lc := net.ListenConfig{Control: func(_, address string, conn syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || at.Addr().Zone() != "" {
			return errBound // Open reports what is wrong
		}
		failed := conn.Control(
			func(fd uintptr) { err = os.NewSyscallError("bind", syscall.Bind(int(fd), sockaddr(at))) },
		)
		if err = errors.Join(failed, err); err != nil {
			return err
		}
		return errBound
	}}
	ln, err := lc.Listen(ctx, "tcp", address)
	if err == nil {
		return ln.Close()
	}
	if errors.Is(err, errBound) {
		return nil
	}
	return err
}

func sockaddr(at netip.AddrPort) syscall.Sockaddr {
	if at.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}
