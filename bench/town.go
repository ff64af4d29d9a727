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
	client *fasthttp.Client
	stop   func()
}

// startTown starts a sink in a process of its own.
func startTown(ctx context.Context, hosts int) (*town, error) {
	cmd, err := ownCommand(ctx, "-role", roleSink, "-hosts", strconv.Itoa(hosts))
	if err != nil {
		return nil, err
	}
	line, stop, err := start(cmd)
	if err != nil {
		return nil, err
	}
	return &town{hosts: strings.Fields(line), client: newClient(), stop: stop}, nil
}

func (t *town) topic(name string) string { return "http://" + t.hosts[0] + pathTopic + name }

// callback is the i-th callback of a kind on a host.
func (t *town) callback(host int, path string, i int) string {
	return "http://" + t.hosts[host] + path + strconv.Itoa(i)
}

// refusing is the i-th callback at a port where nobody listens, on a host of the town.
func (t *town) refusing(host, i int) string {
	ip, _, _ := strings.Cut(t.hosts[host], ":")
	return "http://" + ip + ":1" + pathCallback + strconv.Itoa(i)
}

func (t *town) count() (int64, error) {
	text, err := t.ask(http.MethodGet, "/count")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// await returns when the sink has counted to n.
func (t *town) await(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	for {
		text, err := t.ask(http.MethodGet, "/await?n="+strconv.FormatInt(n, 10))
		if err != nil {
			return err
		}
		count, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || count >= n {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the sink counted %d of %d deliveries: %w", count, n, err)
		}
	}
}

// quiet returns when the sink has counted nothing for that long.
func (t *town) quiet(ctx context.Context, d time.Duration) error {
	for before := int64(-1); ; {
		count, err := t.count()
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

func (t *town) hold() error {
	_, err := t.ask(http.MethodPost, "/hold")
	return err
}

func (t *town) release() error {
	_, err := t.ask(http.MethodPost, "/release")
	return err
}

// check has the sink look at every notification; checked ends that, and returns an
// error unless so many callbacks had so many each, in order and signed.
func (t *town) check() error {
	_, err := t.ask(http.MethodPost, "/check")
	return err
}

func (t *town) checked(callbacks, each int) error {
	fault, err := t.ask(http.MethodGet, fmt.Sprintf("/checked?callbacks=%d&each=%d", callbacks, each))
	if err == nil && len(fault) > 0 {
		err = errors.New(string(fault))
	}
	return err
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
	if err := want2xx(resp.StatusCode()); err != nil {
		return nil, err
	}
	return bytes.Clone(resp.Body()), nil
}

func newClient() *fasthttp.Client { return &fasthttp.Client{MaxIdleConnDuration: time.Minute} }
