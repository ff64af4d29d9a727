package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// fewFiles starts a hub that may open so many files.
func fewFiles(files int) []string {
	return []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files)}
}

// TestFewFiles floods hubs that may open few files with connections, callbacks and publications. They
// deliver every acknowledged publication, and when the flood is over all is as before.
func TestFewFiles(t *testing.T) {
	for _, files := range []int{64, 128, 256} {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			t.Parallel()
			floodWithFiles(t, files)
		})
	}
}

func floodWithFiles(t *testing.T, files int) {
	const callbacks, notes, flood = 10, 30, 200
	s := newSink(t)
	p := startHubBy(t, fewFiles(files), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--store", "pebble:"+t.TempDir(), "--retry-first", "100ms", "--retry-max", "1s")
	hub := p.ready["url"]
	s.setHub(hub, 0)
	for i := range callbacks {
		name := fmt.Sprint("c", i)
		persist(t, "subscribing", func() (int, string, error) {
			return subscribe(hub, s.topicURL("hosts"), s.callbackURL(name), nil)
		}, http.StatusAccepted)
	}
	s.await(t, "the verifications", func() bool { return len(s.verified) == callbacks })

	var idle []net.Conn
	for range flood {
		for _, listener := range []string{"listen", "admin"} {
			if conn, err := net.Dial("tcp", p.ready[listener]); err == nil {
				idle = append(idle, conn)
			}
		}
	}
	var publishers sync.WaitGroup
	for i := range notes {
		publishers.Go(func() {
			persist(t, "publishing", func() (int, string, error) {
				return publish(hub, s.topicURL("hosts"), "text/plain", fmt.Sprintf("%d %s", i, strings.Repeat("x", 1<<20/slowness)))
			}, http.StatusOK)
		})
	}
	publishers.Wait()
	for _, conn := range idle {
		_ = conn.Close()
	}
	s.await(t, "all that was acknowledged", func() bool {
		for i := range callbacks {
			got := map[string]bool{}
			for _, a := range s.got[fmt.Sprint("c", i)] {
				got[a.body] = true
			}
			if len(got) < notes {
				return false
			}
		}
		return true
	})
	eventually(t, "readiness", p.isReady)
	if err := p.stop(t); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.log)
	}
	for _, word := range []string{"panic", "goroutine "} {
		if strings.Contains(p.log.String(), word) {
			t.Errorf("its log has %q:\n%s", word, p.log)
		}
	}
	t.Logf("files: %d, %d bytes of log", files, len(p.log.String()))
}

// persist asks until the answer is the wanted one, as a client does that was asked to come again.
func persist(t *testing.T, what string, ask func() (int, string, error), want int) {
	end := time.Now().Add(time.Minute)
	for {
		status, text, err := ask()
		if err == nil && status == want {
			return
		}
		if time.Now().After(end) || err == nil && status < 500 && status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s %v", what, status, text, err)
			return
		}
		<-time.After(200 * time.Millisecond)
	}
}

// Where there are too few files the hub says so in one line, and starts nothing.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	p := launchHub(t, fewFiles(63), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	if err := p.cmd.Wait(); err == nil || p.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if log := p.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "may open only 63 files") || !strings.Contains(log, "ulimit -n") {
		t.Errorf("it says %q", log)
	}
}
