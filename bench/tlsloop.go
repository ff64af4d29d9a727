package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// tlsLoop runs one round of a bare loop for each line of stdin. It keeps its connections
// and sessions between rounds.
func (c child) tlsLoop(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	client, err := c.tlsClient()
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		if err := c.loop(ctx, stdout, c.tlsPost(client)); err != nil {
			return err
		}
	}
	return nil
}

// tlsClient returns a client that keeps every connection and every session.
func (c child) tlsClient() (*http.Client, error) {
	data, err := os.ReadFile(filepath.Join(c.authority, rootFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(c.hosts)},
		MaxIdleConnsPerHost: c.connections, IdleConnTimeout: time.Hour, DisableCompression: true,
	}}, nil
}

// tlsPost makes a post that visits the hosts in turn.
func (c child) tlsPost(client *http.Client) post {
	body := bytes.Repeat([]byte("x"), c.bodyBytes)
	return func(i int) error { return netHTTPPost(client, tlsCallback(c.target, c.hosts, i%c.callbacks), body) }
}

// tlsLoopProcess is a process that runs tlsLoop.
type tlsLoopProcess struct {
	pid     int
	orders  io.Writer
	results *json.Decoder
	stop    func()
}

func (b *tlsBench) startTLSLoop(ctx context.Context, t *tlsTown, s spread, workers int) (*tlsLoopProcess, error) {
	cmd, err := ownCommand(ctx, "-role", roleTLSLoop, "-target", t.port, "-authority", b.authority, "-hosts", fmt.Sprint(s.hosts),
		"-requests", fmt.Sprint(s.callbacks()), "-callbacks", fmt.Sprint(s.callbacks()),
		"-connections", fmt.Sprint(workers), "-body", fmt.Sprint(b.plan.bodyBytes))
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	results, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := stopper(cmd)
	return &tlsLoopProcess{cmd.Process.Pid, orders, json.NewDecoder(results), func() {
		_ = orders.Close() // the end of its orders ends the process
		stop()
	}}, nil
}

// round runs one round.
func (l *tlsLoopProcess) round() (u usage, err error) {
	if _, err := fmt.Fprintln(l.orders, "round"); err != nil {
		return u, err
	}
	if err := l.results.Decode(&u); err != nil {
		return u, fmt.Errorf("the loop ended (see above): %w", err)
	}
	return u, nil
}
