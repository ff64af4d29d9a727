package program

import (
	"net"
	"os"
)

// Notify tells the service manager that started the process (systemd, Type=notify) a
// state: READY=1, STOPPING=1, STATUS=…. Where there is none it does nothing. A state that
// cannot be told is lost: there is nobody else to tell.
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
