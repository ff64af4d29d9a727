package program

import (
	"net"
	"os"
)

// Notify sends a state (READY=1, STOPPING=1, STATUS=…) to the service manager that started the
// process (systemd, Type=notify). Without such a manager it does nothing. It ignores errors: a
// state that cannot be sent is lost.
func Notify(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if name[0] == '@' {
		name = "\x00" + name[1:] // without a name in the file system
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close() // it was sent, or never will be
	_, _ = conn.Write([]byte(state))
}
