package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// town is a running sink, seen from the process that measures.
type town struct {
	hosts  []string // host:port
	port   string   // of all hosts that the sink serves over TLS
	client *fasthttp.Client
	stop   func()
}

// startTown starts a sink in a process of its own.
func startTown(ctx context.Context, c child) (*town, error) {
	c.Role = roleSink
	p, err := c.launch(ctx)
	if err != nil {
		return nil, err
	}
	t := &town{hosts: strings.Fields(p.ready), client: newClient(), stop: p.stop}
	if c.Authority != "" {
		t.hosts, t.port = t.hosts[:1], t.hosts[1]
	}
	return t, nil
}

func newClient() *fasthttp.Client { return &fasthttp.Client{MaxIdleConnDuration: time.Minute} }

func (t *town) topic(name string) string { return "http://" + t.hosts[0] + pathTopic + name }

// callback is the i-th callback of a kind on a host.
func (t *town) callback(host int, path string, i int) string {
	return "http://" + t.hosts[host] + path + strconv.Itoa(i)
}

// refusing is the i-th callback on a host of the town, at a port without a listener.
func (t *town) refusing(host, i int) string {
	ip, _, _ := strings.Cut(t.hosts[host], ":")
	return "http://" + ip + ":1" + pathCallback + strconv.Itoa(i)
}

func (t *town) counted() (int64, error) {
	text, err := t.ask(http.MethodGet, "/count")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// await returns when the sink has counted to n.
func (t *town) await(ctx context.Context, n int64) error {
	return until(ctx, deliverWithin, 0, func() (bool, error) {
		text, err := t.ask(http.MethodGet, "/await?n="+strconv.FormatInt(n, 10))
		if err != nil {
			return false, err
		}
		count, err := strconv.ParseInt(string(text), 10, 64)
		return count >= n, err
	})
}

// quiet returns when the sink has counted nothing for that long.
func (t *town) quiet(ctx context.Context, d time.Duration) error {
	for before := int64(-1); ; {
		count, err := t.counted()
		if err != nil || count == before {
			return err
		}
		before = count
		if err := pause(ctx, d); err != nil {
			return err
		}
	}
}

// ways takes what the sink has noted of stamped bodies.
func (t *town) ways() ([]way, error) {
	data, err := t.ask(http.MethodGet, "/ways")
	if err != nil {
		return nil, err
	}
	ways := make([]way, len(data)/binary.Size(way{}))
	return ways, binary.Read(bytes.NewReader(data), binary.LittleEndian, ways)
}

// order is /hold, /release or /check. The check ends with checked.
func (t *town) order(path string) error {
	_, err := t.ask(http.MethodPost, path)
	return err
}

// checked ends a check. It returns an error unless so many callbacks had so many notifications
// each, in order and signed.
func (t *town) checked(callbacks, each int) error {
	fault, err := t.ask(http.MethodGet, fmt.Sprintf("/checked?callbacks=%d&each=%d", callbacks, each))
	if err == nil && len(fault) > 0 {
		err = errors.New(string(fault))
	}
	return err
}

// handshakes are what a sink with TLS counts: full ones, those that resumed a session, and
// connections that are open.
type handshakes struct{ full, resumed, open int64 }

func (h handshakes) all() int64 { return h.full + h.resumed }

func (t *town) handshakes() (h handshakes, err error) {
	text, err := t.ask(http.MethodGet, "/secured")
	if err != nil {
		return h, err
	}
	_, err = fmt.Sscan(string(text), &h.full, &h.resumed, &h.open)
	return h, err
}

// closed returns when the sink has no connection open over TLS.
func (t *town) closed(ctx context.Context) error {
	return until(ctx, deliverWithin, 10*time.Millisecond, func() (bool, error) {
		h, err := t.handshakes()
		return h.open == 0, err
	})
}

func (t *town) ask(method, path string) ([]byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(method)
	req.SetRequestURI("http://" + t.hosts[0] + path)
	if err := t.client.Do(req, resp); err != nil {
		return nil, fmt.Errorf("asking the sink: %w", err)
	}
	if status := resp.StatusCode(); status/100 != 2 {
		return nil, fmt.Errorf("the sink answered %d to %s", status, path)
	}
	return bytes.Clone(resp.Body()), nil
}
