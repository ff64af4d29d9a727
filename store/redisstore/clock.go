package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockTolerance is how far the clocks of this process and of a server may be apart before a log line
// reports it.
const clockTolerance = 10 * time.Second

// clock compares this process's clock with a server's. How old a notification is, is
// reckoned from the time of the process that took it in: one whose clock is behind
// has its publications trimmed, and given up, before their time.
func clock(ctx context.Context, server *redis.Client) ([]string, error) {
	asked := time.Now()
	theirs, err := server.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	return apart(asked, time.Now(), theirs), nil
}

// apart is the warning of a server's time that is not about within what this process
// saw between question and answer.
func apart(asked, answered, theirs time.Time) []string {
	off, how := asked.Sub(theirs), "ahead of"
	if behind := theirs.Sub(answered); behind > off {
		off, how = behind, "behind"
	}
	if off <= clockTolerance {
		return nil
	}
	// About, so that it is not news each minute.
	return []string{fmt.Sprintf("this machine's clock is about %s %s that of Redis: with clocks a minute apart and more, notifications "+
		"are trimmed and given up before their time; let every hub and every Redis take its time from NTP",
		max(off.Round(clockTolerance), clockTolerance), how)}
}
