package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	smallLimit = 256 << 20
	// smallBound is what docs/operations.md says of such a process: as much again, if it is built with
	// cgo, as the store's memory is then none of Go's.
	smallBound = 2 * smallLimit * heaviness
	smallBody  = 20 << 20 / slowness // as large as fits well: an eighth of the limit, about
	smallNotes = 4                   // published, as many at a time
	smallPings = 2
)

// TestSmallMemory publishes large bodies in parallel to a hub with little memory, while it fetches
// others and delivers to callbacks that hang. Without room it answers so. It delivers every
// acknowledged publication, and its memory keeps to the bound.
func TestSmallMemory(t *testing.T) {
	s := newSink(t)
	vs := newVillains(t, s, "127.0.0.2")
	body := strings.Repeat("x", smallBody)
	reader := newCounting(t, s, body)
	t.Setenv("GOMEMLIMIT", strconv.Itoa(smallLimit))
	// A test may be built with cgo: glibc then keeps for ever what the store gives back.
	t.Setenv("MALLOC_MMAP_THRESHOLD_", strconv.Itoa(1<<20))
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(),
		"--retry-first", "200ms", "--retry-max", "1s", "--delivery-timeout", "1s", "--max-body", strconv.Itoa(smallBody+1<<10))
	hub := p.ready["url"]
	s.setHub(hub, 0)
	vs.hub.Store(&hub)
	callbacks := []string{reader.URL + "/callback/a", reader.URL + "/callback/b"}
	for i, trick := range []string{"reads-nothing", "reads-slowly", "silent", "trickle-header"} {
		callbacks = append(callbacks, fmt.Sprint(vs.origin(0), "/", trick, "/", i))
	}
	for _, callback := range callbacks {
		if status, text, err := subscribe(hub, s.topicURL("hosts"), callback, nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, text, err)
		}
	}
	s.await(t, "the verifications", func() bool { return s.verified["villain"] == 4 && s.verified["reader"] == 2 })

	var publishers sync.WaitGroup
	for i := range smallNotes {
		publishers.Go(func() {
			persist(t, "publishing", func() (int, string, error) {
				return publish(hub, s.topicURL("hosts"), "text/plain", fmt.Sprintf("%4d ", i)+body)
			}, http.StatusOK)
		})
	}
	for i := range smallPings {
		topic := fmt.Sprint(reader.URL, "/topic/", i)
		persist(t, "pinging", func() (int, string, error) {
			return answer(http.PostForm(hub, url.Values{"hub.mode": {"publish"}, "hub.url": {topic}}))
		}, http.StatusNoContent)
	}
	publishers.Wait()
	s.await(t, "all that was acknowledged", func() bool {
		for i := range smallNotes {
			if mark := fmt.Sprintf("%4d ", i); !s.has("a", mark) || !s.has("b", mark) {
				return false
			}
		}
		return true
	})
	eventually(t, "the fetches", func() bool {
		_, text := look(p.ready["admin"], "/metrics")
		return strings.Contains(text, fmt.Sprintf(`carillon_hub_fetches_total{result="published"} %d`, smallPings))
	})
	peak, now := memoryOf(t, p.cmd.Process.Pid)
	t.Logf("memory: GOMEMLIMIT %d MB, %d publications and %d fetches of %d MB, RSS peak %d MB, at the end %d MB (bound %d MB)",
		smallLimit>>20, smallNotes, smallPings, smallBody>>20, peak>>20, now>>20, smallBound>>20)
	if peak > smallBound {
		t.Errorf("the process took %d MB; the bound is %d MB", peak>>20, smallBound>>20)
	}
}

// newCounting is a server whose callbacks keep only the beginning of what they get, and
// whose topics have the body.
func newCounting(t *testing.T, s *sink, body string) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback/{name}", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		s.verify("reader")
	})
	mux.HandleFunc("POST /callback/{name}", func(_ http.ResponseWriter, r *http.Request) {
		mark := make([]byte, 5)
		if _, err := io.ReadFull(r.Body, mark); err != nil {
			return
		}
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n == smallBody {
			s.record(r.PathValue("name"), arrival{body: string(mark)})
		}
	})
	mux.HandleFunc("/topic/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		hub := s.hub
		s.mu.Unlock()
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="self", <%s>; rel="hub"`, r.Host, r.URL.Path, hub))
		io.WriteString(w, body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}
