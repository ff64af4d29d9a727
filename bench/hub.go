package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of the waits; a run that meets one has failed.
const (
	stopWithin    = 30 * time.Second
	deliverWithin = 5 * time.Minute
)

// hub is a real hub process.
type hub struct {
	url, admin, target string
	client             *http.Client
	stop               func()
	redis              *redisServer // nil on Pebble
}

func buildHub(ctx context.Context, dir string) (string, error) {
	binary := dir + "/hub"
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "carillon/cmd/hub").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the hub (bench runs inside the module): %w\n%s", err, out)
	}
	return binary, nil
}

func startSink(ctx context.Context) (target string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	line, stop, err := start(exec.CommandContext(ctx, self, "-role", roleSink))
	return line, stop, err
}

func startHub(ctx context.Context, binary, store, target string) (*hub, error) {
	line, stop, err := start(exec.CommandContext(ctx, binary,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store, "--log-level", "error"))
	if err != nil {
		return nil, err
	}
	h := &hub{target: target, stop: stop, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "url":
			h.url = value
		case "admin":
			h.admin = value
		}
	}
	return h, nil
}

// start starts a process and reads the one line which says that it is ready.
func start(cmd *exec.Cmd) (line string, stop func(), err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		kill := time.AfterFunc(stopWithin, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // how it ended is of no interest here
	})
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s did not become ready: %w", cmd.Path, err)
	}
	return strings.TrimSpace(line), stop, nil
}

func (h *hub) topic(name string) string {
	return fmt.Sprintf("http://%s/topic/%s?hub=%s", h.target, name, url.QueryEscape(h.url))
}

// prepare makes the subscriptions, waits until every one of them is active, and
// publishes a first notification, which opens the connections.
func (h *hub) prepare(ctx context.Context, p plan) error {
	if err := h.subscribe(ctx, h.topic("busy"), p.callbacks); err != nil {
		return err
	}
	if err := h.awaitSubscriptions(ctx, p.callbacks); err != nil {
		return err
	}
	before, err := h.counted(ctx)
	if err != nil {
		return err
	}
	if err := h.publish(ctx, p); err != nil {
		return err
	}
	return h.await(ctx, before+int64(p.callbacks))
}

func (h *hub) subscribe(ctx context.Context, topic string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(256)
	for i := range n {
		group.Go(func() error {
			form := url.Values{
				"hub.mode": {"subscribe"}, "hub.topic": {topic},
				"hub.callback": {callback(h.target, i)}, "hub.secret": {fmt.Sprintf("secret-%d", i)},
			}
			for {
				status, err := h.post(ctx, "application/x-www-form-urlencoded", "", strings.NewReader(form.Encode()))
				switch {
				case err != nil:
					return err
				case status == http.StatusAccepted:
					return nil
				case status != http.StatusServiceUnavailable: // the hub's queue is full: its answer asks to come again
					return fmt.Errorf("a subscription was answered %d", status)
				}
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (h *hub) publish(ctx context.Context, p plan) error {
	link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, h.topic("busy"), h.url)
	status, err := h.post(ctx, "application/octet-stream", link, bytes.NewReader(bytes.Repeat([]byte("x"), p.bodyBytes)))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("a publication was answered %d", status)
	}
	return err
}

func (h *hub) post(ctx context.Context, contentType, link string, body io.Reader) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", contentType)
	if link != "" {
		req.Header.Set("Link", link)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// deliver publishes the notifications of a round and measures until the last
// delivery has arrived.
func (h *hub) deliver(ctx context.Context, p plan) (usage, error) {
	before, err := h.counted(ctx)
	if err != nil {
		return usage{}, err
	}
	cpu, err := h.metric(ctx, "process_cpu_seconds_total")
	if err != nil {
		return usage{}, err
	}
	commands, asked := int64(0), time.Now()
	if h.redis != nil {
		if commands, err = h.redis.commands(ctx); err != nil {
			return usage{}, err
		}
	}
	begin := time.Now()
	for range p.publications {
		if err := h.publish(ctx, p); err != nil {
			return usage{}, err
		}
	}
	total := p.callbacks * p.publications
	if err := h.await(ctx, before+int64(total)); err != nil {
		return usage{}, err
	}
	wall := time.Since(begin)
	after, err := h.metric(ctx, "process_cpu_seconds_total")
	if err != nil {
		return usage{}, err
	}
	u := usage{Deliveries: total, Wall: wall, CPU: time.Duration((after - cpu) * float64(time.Second))}
	if h.redis == nil {
		return u, nil
	}
	// The last cursors are saved a flush interval later.
	if err := pause(ctx, time.Second); err != nil {
		return usage{}, err
	}
	all, err := h.redis.commands(ctx)
	u.Commands = float64(all-commands) - h.redis.atRest*time.Since(asked).Seconds()
	return u, err
}

// await returns when the sink has counted to n.
func (h *hub) await(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		count, err := h.counted(ctx)
		if err != nil {
			return err
		}
		if count >= n {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("the sink counted %d of %d deliveries: %w", count, n, err)
		}
	}
}

func (h *hub) counted(ctx context.Context) (int64, error) {
	text, err := h.get(ctx, "http://"+h.target+"/count")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// metric reads one figure without labels from the hub's metrics.
func (h *hub) metric(ctx context.Context, name string) (float64, error) {
	text, err := h.get(ctx, "http://"+h.admin+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the hub has no metric " + name)
}

func (h *hub) get(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
