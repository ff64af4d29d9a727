package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// appender appends one record to a bare store, durably. It is for one goroutine.
type appender interface {
	append() error
	close() error
}

// appenders write to the same store.
type appenders []appender

func (a appenders) close() {
	for _, one := range a {
		_ = one.close() // nothing of it is wanted any more
	}
}

// openAppenders opens the yardstick of a store: on Pebble another one beside it on
// the same disk, on Redis another database of the same server.
func openAppenders(ctx context.Context, s *store, n, size int) (appenders, error) {
	body := content(size)
	if s.redis == nil {
		return pebbleAppenders(filepath.Join(s.dir, "yardstick"), n, body)
	}
	var all appenders
	for i := range n {
		a, err := dialRedisAppender(ctx, s.redis.address, i, body)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// pebbleAppender is one writer to Pebble itself.
type pebbleAppender struct {
	db   *pebble.DB
	next *atomic.Uint64
	body []byte
	done func() error
}

// quietLog drops what Pebble says of its work.
type quietLog struct{ pebble.Logger }

func (quietLog) Infof(string, ...any)  {}
func (quietLog) Errorf(string, ...any) {}

func pebbleAppenders(dir string, n int, body []byte) (appenders, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quietLog{pebble.DefaultLogger}})
	if err != nil {
		return nil, fmt.Errorf("the bare Pebble: %w", err)
	}
	a := &pebbleAppender{db: db, next: new(atomic.Uint64), body: body, done: sync.OnceValue(db.Close)}
	all := make(appenders, n)
	for i := range all {
		all[i] = a
	}
	return all, nil
}

func (a *pebbleAppender) append() error {
	return a.db.Set(binary.BigEndian.AppendUint64(nil, a.next.Add(1)), a.body, pebble.Sync)
}

func (a *pebbleAppender) close() error { return a.done() }

// redisAppender is one client of a redis-server: XADD to a stream of its own,
// which is kept short.
type redisAppender struct {
	conn    net.Conn
	in      *bufio.Reader
	command []byte
}

func dialRedisAppender(ctx context.Context, address string, i int, body []byte) (*redisAppender, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	a := &redisAppender{conn: conn, in: bufio.NewReader(conn), command: resp("SELECT", "1")}
	if err := a.append(); err != nil {
		conn.Close()
		return nil, err
	}
	a.command = resp("XADD", fmt.Sprintf("yardstick-%d", i), "MAXLEN", "~", "1000", "*", "body", string(body))
	return a, nil
}

// resp is a command in Redis's protocol.
func resp(words ...string) []byte {
	command := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(w), w)
	}
	return command
}

func (a *redisAppender) append() error {
	if _, err := a.conn.Write(a.command); err != nil {
		return err
	}
	line, err := a.in.ReadString('\n')
	switch {
	case err != nil:
		return err
	case line[0] == '$': // the identifier of the entry follows
		_, err = a.in.ReadString('\n')
		return err
	case line[0] == '+':
		return nil
	}
	return errors.New("redis-server: " + strings.TrimSpace(line))
}

func (a *redisAppender) close() error { return a.conn.Close() }
