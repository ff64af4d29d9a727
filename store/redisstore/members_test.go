package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"carillon/subscription"
)

// leases are the keys with the leases of the shards.
func (w *world) leases() (list []string) {
	for s := range subscription.Shards {
		list = append(list, w.key(fmt.Sprintf("{shard-%02d}:cursors", s)))
	}
	return list
}

// left is for how long the members count from now on, at most, and in the same way
// the leases; zero without one.
func (w *world) left(t *testing.T) (members, leases time.Duration) {
	t.Helper()
	list := w.leases()
	args := append([]string{"EVAL", `
local t = redis.call('TIME')
local now, result = t[1] * 1000 + math.floor(t[2] / 1000), {0, 0}
local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #members, 2 do result[1] = math.max(result[1], members[i] - now) end
for i = 2, #KEYS do result[2] = math.max(result[2], (redis.call('HGET', KEYS[i], '!until') or now) - now) end
return result`, fmt.Sprint(1 + len(list)), w.key("{store}:members")}, list...)
	result := w.server.Do(t, args...).([]any)
	return time.Duration(result[0].(int64)) * time.Millisecond, time.Duration(result[1].(int64)) * time.Millisecond
}

// A process that has just begun is a member for a short time only, so that one which dies
// again and again does not count as many.
func TestANewcomerCountsForLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := newKeeper(t, w, time.Minute).run()
	waitParts(t, map[*keeper]int{k: subscription.Shards})
	k.gate.close()
	if left, _ := w.left(t); left > 15*time.Second {
		t.Errorf("it would be a member for %s after its death", left)
	}
	k.end()

	w = newWorld(t)
	k = newKeeper(t, w, takeover).run()
	eventually(t, func() error {
		if left, _ := w.left(t); left <= takeover/4 {
			return fmt.Errorf("it is a member for %s, after all this time", left)
		}
		return nil
	})
	waitParts(t, map[*keeper]int{k: subscription.Shards})
}

// Records written before the server's clock went back count for no longer than the longest takeover.
func TestTheServersClockGoesBack(t *testing.T) {
	t.Parallel()
	const longest = 5 * time.Minute
	w := newWorld(t)
	ahead := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	w.server.Do(t, "ZADD", w.key("{store}:members"), ahead, "a process that is dead")
	for _, key := range w.leases() {
		w.server.Do(t, "HSET", key, "!epoch", "7", "!owner", "a process that is dead", "!until", ahead)
	}
	newKeeper(t, w, takeover).run()
	eventually(t, func() error {
		if members, leases := w.left(t); members > longest || leases > longest {
			return fmt.Errorf("they count for %s and %s", members, leases)
		}
		return nil
	})
	if members, leases := w.left(t); members < longest/2 || leases < longest/2 {
		t.Errorf("they count for %s and %s only", members, leases)
	}
}

// A shard whose lease was given, but the answer lost, is given up at the end, too.
func TestAnUnansweredTakeIsReleased(t *testing.T) {
	t.Parallel()
	w := ownWorld(t) // its server does not know the scripts, so that they can be read
	far := fmt.Sprint(time.Now().Add(time.Minute).UnixMilli())
	for _, key := range w.leases()[1:] {
		w.server.Do(t, "HSET", key, "!epoch", "7", "!owner", "another", "!until", far)
	}
	seen, lose := make(chan struct{}), make(chan struct{})
	w.cfg.URL = "redis://" + between(t, w.server.Addr(), []byte("'!owner', ARGV[1]"), seen, lose) + "?prefix=" + prefixOf(w)
	db := w.open(t)
	db.SetTakeover(2 * time.Second)
	k := (&keeper{t: t, db: db, done: make(chan struct{}), held: make(map[subscription.Shard]uint64)}).run()
	<-seen
	if owner := w.server.Do(t, "HGET", w.leases()[0], "!owner"); owner == nil {
		t.Error("the shard was not taken, which tests nothing")
	}
	k.stop()
	close(lose)
	k.end()
	if owner := w.server.Do(t, "HGET", w.leases()[0], "!owner"); owner != nil {
		t.Errorf("%v still has the shard", owner)
	}
}

// between passes on what a client and a server say. Of the first connection on which the
// client says word the next answer is held: seen is closed, and when lose is, the
// connection breaks.
func between(t *testing.T, server string, word []byte, seen, lose chan struct{}) (addr string) {
	t.Helper()
	l := loopback(t)
	t.Cleanup(func() { _ = l.Close() }) // it only listened
	once := make(chan struct{}, 1)
	once <- struct{}{}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = hold(client, server, word, once, seen, lose) }() // either side ends it
		}
	}()
	return l.Addr().String()
}

func hold(client net.Conn, addr string, word []byte, once, seen, lose chan struct{}) error {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer server.Close()
	said := make(chan struct{})
	go func() {
		defer server.Close()
		var text []byte
		for chunk := make([]byte, 64<<10); ; {
			n, err := client.Read(chunk)
			if text = append(text, chunk[:n]...); bytes.Contains(text, word) {
				select {
				case <-once:
					close(said)
				default:
				}
				text = nil
			}
			if _, failed := server.Write(chunk[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	for chunk := make([]byte, 64<<10); ; {
		n, err := server.Read(chunk)
		if err != nil {
			return err
		}
		select {
		case <-said:
			close(seen)
			<-lose
			return errors.New("the answer is lost")
		default:
		}
		if _, err := client.Write(chunk[:n]); err != nil {
			return err
		}
	}
}
