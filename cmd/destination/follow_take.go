package main

import (
	"context"
	"fmt"
	"io"

	"carillon/destination"
	"carillon/destination/follow"
)

// originOf is where a change came from.
func originOf(topic string, c *follow.Change) destination.Origin {
	return destination.Origin{Topic: topic, Notification: c.Notification, Key: c.Key, Via: string(c.Via)}
}

// lines prints each change as a line of JSON.
type lines struct {
	w     io.Writer
	topic string
	rest  []byte // of the first change's line, which was written in part
	buf   []byte
}

var _ follow.Taker = (*lines)(nil)

// Take implements follow.Taker. A change is done with when its whole line was written.
func (l *lines) Take(_ context.Context, changes []follow.Change) (int, error) {
	done := 0
	if len(l.rest) > 0 {
		n, err := l.w.Write(l.rest)
		if l.rest = l.rest[n:]; err != nil {
			return 0, fmt.Errorf("printing: %w", err)
		}
		done, changes = 1, changes[1:]
	}
	l.buf = l.buf[:0]
	ends := make([]int, len(changes))
	for i := range changes {
		l.buf = destination.AppendChange(l.buf, &changes[i].Entry, originOf(l.topic, &changes[i]))
		ends[i] = len(l.buf)
	}
	n, err := l.w.Write(l.buf)
	if err == nil {
		return done + len(changes), nil
	}
	begin := 0
	for _, end := range ends {
		if end > n {
			if n > begin {
				l.rest = append([]byte(nil), l.buf[n:end]...)
			}
			break
		}
		begin = end
		done++
	}
	return done, fmt.Errorf("printing: %w", err)
}
