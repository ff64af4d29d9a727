package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// answerTime bounds one command.
const answerTime = 10 * time.Second

// Error is what a server answered instead of a result.
type Error string

func (e Error) Error() string { return string(e) }

// conn is a connection that speaks one command at a time, in version 2 of the
// protocol.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string, t *TLS) (*conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	var c net.Conn
	var err error
	if t != nil {
		c, err = tls.DialWithDialer(dialer, "tcp", addr, t.client())
	} else {
		c, err = dialer.Dial("tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

func (c *conn) close() { _ = c.Close() } // nothing is under way

func (c *conn) do(args ...string) (any, error) {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	command := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := c.Write(command); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("an answer that is no answer: %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, Error(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.r, text)
		return string(text[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("an answer of an unknown kind: %q", line)
}
