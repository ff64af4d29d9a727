package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// redisWithin is the time for a redis-server to answer after its start, and for
// every question after that.
const redisWithin = 10 * time.Second

// redisServer is a redis-server process that keeps what it acknowledges: AOF,
// synced before each answer.
type redisServer struct {
	address string
	stop    func()
}

// startRedis starts a redis-server in the directory. The error is exec.ErrNotFound if it is not
// installed.
func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(ctx, binary, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--logfile", filepath.Join(dir, "log"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &redisServer{address: address, stop: stopper(cmd)}
	err = until(ctx, redisWithin, 20*time.Millisecond, func() (bool, error) {
		_, err := s.commands(ctx)
		return err == nil, nil // it may not listen yet
	})
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("redis-server did not become ready: %w", err)
	}
	return s, nil
}

var calls = regexp.MustCompile(`(?m)^cmdstat_[^:]+:calls=(\d+),`)

// commands returns how many commands the server has carried out, those inside
// scripts included, and those of this question not.
func (s *redisServer) commands(ctx context.Context) (int64, error) {
	info, err := s.info(ctx, "commandstats")
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, match := range calls.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// watch measures for some time how many commands an idle hub costs.
func (s *redisServer) watch(ctx context.Context, d time.Duration) (perSecond float64, err error) {
	before, err := s.commands(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	after, err := s.commands(ctx)
	return float64(after-before) / time.Since(begin).Seconds(), err
}

// info asks the server one INFO question, on a connection of its own.
func (s *redisServer) info(ctx context.Context, section string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(redisWithin)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", section); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	head, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	length, isBulk := strings.CutPrefix(strings.TrimSpace(head), "$")
	size, err := strconv.Atoi(length)
	if !isBulk || err != nil {
		return "", errors.New("redis-server answered " + strconv.Quote(head))
	}
	answer := make([]byte, size)
	_, err = io.ReadFull(reader, answer)
	return string(answer), err
}
