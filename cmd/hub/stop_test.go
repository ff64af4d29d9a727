package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// While a hub that was told to stop finishes an upload, the operator's listener
// says that it lives and is not ready; then it ends with status 0.
func TestTheOperatorSeesTheEnd(t *testing.T) {
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	upload, err := net.Dial("tcp", p.ready["listen"])
	if err != nil {
		t.Fatal(err)
	}
	defer upload.Close()
	fmt.Fprintf(upload, "POST /websub/ HTTP/1.1\r\nHost: hub\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n"+
		"Link: <%s>; rel=self, <%[1]s>; rel=hub\r\nExpect: 100-continue\r\n\r\n", p.ready["url"])
	if line := make([]byte, len("HTTP/1.1 100")); readWithin(upload, line) != nil || string(line) != "HTTP/1.1 100" {
		t.Fatalf("the hub answered %q; want it to go on with the upload", line)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	admin := "http://" + p.ready["admin"]
	for deadline := time.Now().Add(5 * time.Second); ; {
		status, body, err := answer(http.Get(admin + "/readyz"))
		if err != nil {
			t.Fatalf("/readyz while stopping: %v", err)
		}
		if status == http.StatusServiceUnavailable && strings.Contains(body, "stopping") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz is %d %q long after the signal", status, body)
		}
	}
	if status, _, err := answer(http.Get(admin + "/healthz")); err != nil || status != http.StatusOK {
		t.Errorf("/healthz while stopping: %d %v", status, err)
	}
	upload.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
}

// readWithin fills b in ten seconds.
func readWithin(conn net.Conn, b []byte) error {
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, b)
	return err
}
