package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// hub is a running hub process.
type hub struct {
	*program
	intake, admin string // host:port
	client        *fasthttp.Client
	started       time.Time
	toReady       time.Duration // from its start to its ready line
}

// startHub starts a hub on the store with default settings, and the flags of the scenario.
func (e *env) startHub(ctx context.Context, s *store, flags ...string) (*hub, error) {
	cmd := exec.CommandContext(ctx, e.binary, append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hubURL,
		"--store", s.flag(), "--log-level", "error", "--drain", "0s",
	}, flags...)...)
	cmd.Env = append(os.Environ(), e.environment...)
	begin := time.Now()
	p, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	return &hub{
		program: p, intake: p.field("listen"), admin: p.field("admin"),
		started: begin, toReady: time.Since(begin),
		client: &fasthttp.Client{MaxConnsPerHost: 1024, MaxIdleConnDuration: time.Minute},
	}, nil
}

// publication is a notification and its topic, published as often as needed.
type publication struct {
	hub  *hub
	link string
	body []byte
}

func (h *hub) publication(topic string, body []byte) *publication {
	link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hubURL)
	return &publication{h, link, body}
}

// send publishes it, and returns how long the answer took.
func (p *publication) send() (time.Duration, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/octet-stream")
	req.Header.Set("Link", p.link)
	req.SetRequestURI("http://" + p.hub.intake + "/websub/")
	req.SetBodyRaw(p.body)
	begin := time.Now()
	if err := p.hub.client.Do(req, resp); err != nil {
		return 0, fmt.Errorf("publishing: %w", err)
	}
	took := time.Since(begin)
	if status := resp.StatusCode(); status != http.StatusOK {
		return took, fmt.Errorf("a publication was answered %d", status)
	}
	return took, nil
}

// metrics reads all figures of the hub, by their names with their labels.
func (h *hub) metrics() (map[string]float64, error) {
	status, text, err := h.client.Get(nil, "http://"+h.admin+"/metrics")
	if err != nil || status != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the hub's metrics: status %d", status), err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if cut := strings.LastIndexByte(line, ' '); cut > 0 && line[0] != '#' {
			if values[line[:cut]], err = strconv.ParseFloat(line[cut+1:], 64); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// metric reads one figure.
func (h *hub) metric(name string) (float64, error) {
	values, err := h.metrics()
	if value, ok := values[name]; ok || err != nil {
		return value, err
	}
	return 0, fmt.Errorf("the hub has no metric %q", name)
}

// attempts are the delivery attempts so far: those that a callback took, and the others.
func (h *hub) attempts() (delivered, failed int, err error) {
	values, err := h.metrics()
	for name, n := range values {
		class, ours := strings.CutPrefix(name, `carillon_delivery_attempts_total{class="`)
		switch {
		case ours && class == `delivered"}`:
			delivered += int(n)
		case ours:
			failed += int(n)
		}
	}
	return delivered, failed, err
}

// cpu is what the process has used, in steps of 10 ms.
func (h *hub) cpu() (time.Duration, error) {
	seconds, err := h.metric("process_cpu_seconds_total")
	return time.Duration(seconds * float64(time.Second)), err
}

// awaitSubscriptions returns when the hub serves n subscriptions and says that it is ready, and
// how long that took from its start.
func (h *hub) awaitSubscriptions(ctx context.Context, n int) (took time.Duration, err error) {
	err = until(ctx, deliverWithin, 10*time.Millisecond, func() (bool, error) {
		status, _, err := h.client.Get(nil, "http://"+h.admin+"/readyz")
		took = time.Since(h.started)
		if err != nil || status != http.StatusOK {
			return false, err
		}
		serving, err := h.metric("carillon_delivery_subscriptions")
		return int(serving) >= n, err
	})
	if err != nil {
		err = fmt.Errorf("the hub does not serve %d subscriptions: %w", n, err)
	}
	return took, err
}
