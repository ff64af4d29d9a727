package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

// The first and the longest pause before listening is tried again; the longest is
// Config.Poll where that is shorter.
const (
	listenFirst = 50 * time.Millisecond
	listenMax   = 5 * time.Second
	// checkEvery is how often it is looked whether the server still answers.
	checkEvery = 2 * time.Second
)

// Listen calls the ear for changes by this process and all others, until ctx ends; then it returns
// nil. A call is a hint, not the record of a change: some may be missed, for which Refresh exists.
// Refresh comes whenever listening has begun and every Config.Poll, whether the server is there or
// not. One goroutine calls the ear.
//
// A silent connection is found out within Config.Poll.
func (db *DB) Listen(ctx context.Context, ear Ear) error {
	l := &listener{db: db, ear: ear, poll: time.NewTicker(db.engine.cfg.Poll)}
	defer l.poll.Stop()
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(listenFirst),
		backoff.WithMaxInterval(min(listenMax, db.engine.cfg.Poll)),
		backoff.WithMaxElapsedTime(0))
	for {
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if l.heard {
			pause.Reset()
		}
		if !l.deaf {
			l.deaf = true
			db.engine.log.Warn("not hearing of other processes; it is tried again, and what they do is looked for meanwhile",
				"every", db.engine.cfg.Poll, "error", err)
		}
		if !l.waitToListen(ctx, pause.NextBackOff()) {
			return nil
		}
	}
}

// listener is one run of Listen. It is used by one goroutine.
type listener struct {
	db   *DB
	ear  Ear
	poll *time.Ticker
	// heard: listening has begun since the last time that it was tried.
	heard bool
	// deaf: it was logged that nothing can be heard.
	deaf bool
}

// errSilent: a ping on the listening connection had no answer.
var errSilent = errors.New("the server does not answer")

// listen listens on one connection until that fails.
func (l *listener) listen(ctx context.Context) error {
	l.heard = false
	e := l.db.engine
	ctx, cancel := context.WithCancel(ctx)
	pubsub := e.hearing(ctx) // nothing yet, which does not connect
	begun, messages, failed := make(chan struct{}), make(chan any), make(chan error, 1)
	go func() {
		err := pubsub.Subscribe(ctx, e.keys.bell())
		if err == nil {
			close(begun)
			err = receive(ctx, pubsub, messages)
		}
		failed <- err
	}()
	ended := false
	defer func() {
		cancel()
		_ = pubsub.Close() // work under way on it is given up
		if !ended {
			<-failed
		}
	}()
	// Half of Poll at most, so that a ping and its answer fit into one.
	check := time.NewTicker(max(min(e.cfg.Poll/2, checkEvery), time.Millisecond))
	defer check.Stop()
	var checks <-chan time.Time // nil until the connection stands, as a ping waits for that
	quiet := false              // nothing came since the last ping
	for {
		select {
		case <-begun:
			begun, checks = nil, check.C
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			ended = true
			return err
		case message := <-messages:
			quiet = false
			l.take(message)
		case <-l.poll.C:
			l.ear.Refresh()
		case <-checks:
			if quiet {
				return errSilent
			}
			quiet = true
			if err := pubsub.Ping(ctx); err != nil {
				return err
			}
		}
	}
}

// hearing returns a subscription to the bell at a server. In a Cluster every node hears all messages.
// The node is a random one, as the client itself would go to the same one each time, dead or not.
func (e *engine) hearing(ctx context.Context) *redis.PubSub {
	client, ok := e.client.(*redis.ClusterClient)
	if !ok {
		return e.client.Subscribe(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, rerouteTime)
	defer cancel()
	var mu sync.Mutex
	var servers []*redis.Client // guarded by mu
	_ = client.ForEachMaster(ctx, func(_ context.Context, server *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, server)
		return nil
	})
	if len(servers) == 0 {
		return client.Subscribe(ctx)
	}
	return servers[rand.IntN(len(servers))].Subscribe(ctx)
}

// receive passes on what comes, until the connection fails or ctx ends. It waits
// without a limit, as one that ran out in the middle of a message would leave the
// rest of it for the next.
func receive(ctx context.Context, pubsub *redis.PubSub, messages chan<- any) error {
	for {
		message, err := pubsub.Receive(ctx)
		if err != nil {
			return err
		}
		select {
		case messages <- message:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take passes a message on to the ear.
func (l *listener) take(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		l.heard = true
		if l.deaf {
			l.deaf = false
			l.db.engine.log.Info("hearing of other processes again")
		}
		l.db.nudge()
		l.ear.Refresh()
	case *redis.Message:
		if err := l.tell(m.Payload); err != nil {
			l.db.engine.log.Debug("a message of another process is not understood", "message", m.Payload, "error", err)
			l.ear.Refresh()
		}
	}
}

// waitToListen waits before the next try. It is false when ctx has ended.
func (l *listener) waitToListen(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.poll.C:
			l.ear.Refresh()
		case <-timer.C:
			return true
		}
	}
}

// tell passes one message on to the ear:
//
//	n HEAD TOPICKEY   a log has grown
//	r ID              a request was submitted
//	p COUNT TOPIC     a ping was noted
//	m                 members or leases have changed
func (l *listener) tell(message string) error {
	kind, rest, _ := strings.Cut(message, " ")
	switch kind {
	case "n":
		number, topic, _ := strings.Cut(rest, " ")
		head, err := strconv.ParseUint(number, 10, 64)
		if err != nil || head == 0 || head > uint64(delivery.MaxSeq) || topic == "" {
			return fmt.Errorf("%q is no topic and head", rest)
		}
		l.ear.Published(topic, delivery.Seq(head))
	case "r":
		id, err := uuid.Parse(rest)
		if err != nil {
			return fmt.Errorf("a request: %w", err)
		}
		l.ear.Requested(subscription.ID(id))
	case "p":
		ping, err := parsePing(rest)
		if err != nil {
			return err
		}
		l.ear.Pinged(ping)
	case "m":
		l.db.nudge()
	default:
		return fmt.Errorf("%q is no kind of message", kind)
	}
	return nil
}
