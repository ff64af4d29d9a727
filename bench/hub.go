package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// Bounds of the waits; a run that meets one has failed.
const (
	stopWithin    = 40 * time.Second
	deliverWithin = 5 * time.Minute
)

// hubURL is the hub URI of every hub: the topics name it, and a topic must be the
// same for the hub that an export is imported for and those that come after it.
// Where the hub really listens is another matter. That it is loopback allows loopback callbacks.
const hubURL = "http://127.0.0.1:1/websub/"

// hub is a real hub process.
type hub struct {
	pid           int
	intake, admin string // host:port
	client        *fasthttp.Client
	stop          func() // ends it as an operator would
	kill          func() // ends it at once: for stores that nobody wants any more
	started       time.Time
	ready         time.Duration // from its start to its ready line
}

// build makes one of the programs in a directory.
func build(ctx context.Context, dir, program string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", dir+"/"+program, "carillon/cmd/"+program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the %s (bench runs inside the module): %w\n%s", program, err, out)
	}
	return nil
}

// startHub starts a hub on the store, as it comes: the flags are those that a
// scenario is about.
func startHub(ctx context.Context, binary, store string, flags ...string) (*hub, error) {
	return startHubIn(ctx, nil, binary, store, flags...)
}

// startHubIn starts one with more in its environment.
func startHubIn(ctx context.Context, environment []string, binary, store string, flags ...string) (*hub, error) {
	args := append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hubURL, "--store", store, "--log-level", "error", "--drain", "0s",
	}, flags...)
	begin := time.Now()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), environment...)
	line, stop, err := start(cmd)
	if err != nil {
		return nil, err
	}
	h := &hub{
		pid: cmd.Process.Pid, stop: stop, kill: func() { _ = cmd.Process.Kill(); stop() }, started: begin, ready: time.Since(begin),
		client: &fasthttp.Client{MaxConnsPerHost: 1024, MaxIdleConnDuration: time.Minute},
	}
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "listen":
			h.intake = value
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
	stop = stopper(cmd)
	line, err = bufio.NewReaderSize(out, 1<<20).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s did not become ready (see above): %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(line), stop, nil
}

// stopper ends a process, and returns when it has ended.
func stopper(cmd *exec.Cmd) func() {
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		kill := time.AfterFunc(stopWithin, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // how it ended is of no interest here
	})
}

// publication is a notification and where it goes, made once and published
// as often as needed.
type publication struct {
	hub  *hub
	link string
	body []byte
}

// content is a body that no store can make smaller, and that bears no stamp.
func content(n int) []byte {
	body := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it always fills it
	return body
}

func (h *hub) publication(topic string, body []byte) *publication {
	return &publication{h, fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hubURL), body}
}

// send publishes it, and returns how long the answer took.
func (p *publication) send() (time.Duration, error) {
	status, took, err := p.try()
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("a publication was answered %d", status)
	}
	return took, err
}

func (p *publication) try() (status int, took time.Duration, err error) {
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
		return 0, 0, fmt.Errorf("publishing: %w", err)
	}
	return resp.StatusCode(), time.Since(begin), nil
}

// subscribe asks for a subscription, without a secret: this is plain HTTP.
func (h *hub) subscribe(topic, callback string) error {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	args.Set("hub.mode", "subscribe")
	args.Set("hub.topic", topic)
	args.Set("hub.callback", callback)
	status, _, err := h.client.Post(nil, "http://"+h.intake+"/websub/", args)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("a subscription request was answered %d", status)
	}
	return err
}

// metric reads one figure from the hub's metrics, by its name with its labels.
func (h *hub) metric(name string) (float64, error) {
	values, err := h.metrics(name)
	return values[name], err
}

func (h *hub) scrape() ([]byte, error) {
	status, text, err := h.client.Get(nil, "http://"+h.admin+"/metrics")
	if err != nil || status != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the hub's metrics: status %d", status), err)
	}
	return text, nil
}

func (h *hub) metrics(names ...string) (map[string]float64, error) {
	text, err := h.scrape()
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		for _, name := range names {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				if values[name], err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(values) != len(names) {
		return nil, fmt.Errorf("the hub has not all of the metrics %q", names)
	}
	return values, nil
}

// classDelivered is the class of attempts that a callback took.
const classDelivered = "delivered"

// attempts are the delivery attempts so far, by the class of their outcome.
func (h *hub) attempts() (map[string]float64, error) {
	text, err := h.scrape()
	if err != nil {
		return nil, err
	}
	classes := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if rest, ours := strings.CutPrefix(line, `carillon_delivery_attempts_total{class="`); ours {
			class, value, _ := strings.Cut(rest, `"} `)
			if classes[class], err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				return nil, err
			}
		}
	}
	return classes, nil
}

// awaitDelivered returns the attempts when the hub has counted so many that were taken.
func (h *hub) awaitDelivered(ctx context.Context, n int) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		classes, err := h.attempts()
		if err != nil || int(classes[classDelivered]) >= n {
			return classes, err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the hub counted %v attempts, not %d of class %q: %w", classes, n, classDelivered, err)
		}
	}
}

// cpu is what the process has used, in steps of 10 ms.
func (h *hub) cpu() (time.Duration, error) {
	seconds, err := h.metric("process_cpu_seconds_total")
	return time.Duration(seconds * float64(time.Second)), err
}

// subscriptionsGauge is the metric of the subscriptions that a hub serves.
const subscriptionsGauge = "carillon_delivery_subscriptions"

// awaitSubscriptions returns when the hub serves n subscriptions and says that
// it is ready, and how long that took from its start.
func (h *hub) awaitSubscriptions(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		status, _, err := h.client.Get(nil, "http://"+h.admin+"/readyz")
		if err != nil {
			return 0, err
		}
		took := time.Since(h.started)
		if status == http.StatusOK {
			serving, err := h.metric(subscriptionsGauge)
			if err != nil || int(serving) >= n {
				return took, err
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, fmt.Errorf("the hub does not serve %d subscriptions: %w", n, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
