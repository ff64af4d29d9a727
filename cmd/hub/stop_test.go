package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon/cmd/internal/program"
	"carillon/store/pebblestore"
)

// A stopping hub finishes an upload: meanwhile the operator's listener says that it lives and is not
// ready. Then it ends with status 0.
func TestTheOperatorSeesTheEnd(t *testing.T) {
	t.Parallel()
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	upload := startUpload(t, p)
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

// startUpload begins a publication whose body does not come, and returns when the hub waits for
// it.
func startUpload(t *testing.T, p *process) net.Conn {
	t.Helper()
	upload, err := net.Dial("tcp", p.ready["listen"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upload.Close() })
	fmt.Fprintf(upload, "POST /websub/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n"+
		"Link: <%s>; rel=self, <%[1]s>; rel=hub\r\nExpect: 100-continue\r\n\r\n", p.ready["url"])
	if line := make([]byte, len("HTTP/1.1 100")); readWithin(upload, line) != nil || string(line) != "HTTP/1.1 100" {
		t.Fatalf("the hub answered %q; want it to go on with the upload", line)
	}
	return upload
}

// readWithin fills b in ten seconds.
func readWithin(conn net.Conn, b []byte) error {
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, b)
	return err
}

// A hub stops with work under way: a callback that hangs, a publisher in the middle of a body, a
// command in the middle of its request, a backup without a reader. It ends with status 0 within its
// bound, and the next process delivers every acknowledged notification.
func TestStopWithEverythingUnderWay(t *testing.T) {
	t.Parallel() // it waits, mostly
	s := newSink(t)
	hangs, over := make(chan struct{}), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if challenge := r.URL.Query().Get("hub.challenge"); challenge != "" {
			io.WriteString(w, challenge)
			return
		}
		select {
		case hangs <- struct{}{}:
		default:
		}
		<-over
	}))
	defer hanging.Close()
	defer close(over)
	dir, port := t.TempDir(), freePort(t)
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", port)
	s.setHub(hub, 0)
	args := []string{"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--url", hub, "--store", "pebble:" + dir}
	p := startHub(t, args...)
	for _, callback := range []string{s.callbackURL("a"), hanging.URL} {
		if status, body, err := subscribe(hub, s.topicURL("0"), callback, nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, body, err)
		}
	}
	s.await(t, "the verification", func() bool { return s.verified["a"] > 0 })
	for n := 0; ; n++ { // until the other is verified as well
		if status, body, err := publish(hub, s.topicURL("0"), "text/plain", fmt.Sprint(n)); err != nil || status != http.StatusOK {
			t.Fatalf("publishing: %d %s %v", status, body, err)
		}
		select {
		case <-hangs:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	fillStore(t, p)
	halfSent(t, "tcp", p.ready["listen"], "POST /websub/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nhalf")
	halfSent(
		t, "unix", filepath.Join(dir, pebblestore.ControlSocket),
		"POST /api/v1/backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
	)
	halfSent(t, "unix", filepath.Join(dir, pebblestore.ControlSocket), "GET /api/v1/version HTTP/1.1\r\nHost")
	begun := time.Now()
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
	if took := time.Since(begun); took > program.StopWithin+2*time.Second {
		t.Errorf("the end took %s; want %s", took, program.StopWithin)
	} else {
		t.Logf("the end took %s", took)
	}
	if strings.Contains(p.log.String(), "not everything stopped") {
		t.Errorf("something hung at the end:\n%s", p.log)
	}
	if status, body, err := publish(hub, s.topicURL("0"), "text/plain", "x"); err == nil {
		t.Errorf("a hub that has ended answers %d %s", status, body)
	}
	startHub(t, args...)
	select {
	case <-hangs:
	case <-time.After(time.Minute):
		t.Error("what hung at the end is not delivered again")
	}
}

// halfSent sends what is not the whole of a request, and stays.
func halfSent(t *testing.T, network, address, part string) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, part); err != nil {
		t.Fatal(err)
	}
}
