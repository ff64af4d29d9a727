package redisstore

import (
	"context"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Serve answers the questions of other processes until ctx ends; then it returns nil. A
// server that is away is waited for. answer is called by up to answersAtOnce goroutines;
// its context ends when the asker waits no longer, or ctx ends. One that panics has
// failed, and the process goes on.
func (p *Peers) Serve(ctx context.Context, answer func(ctx context.Context, question []byte) []byte) error {
	s := &serving{
		peers: p, answer: answer, list: p.db.engine.keys.questions(p.Self()),
		turns: make(chan struct{}, answersAtOnce),
	}
	defer s.under.Wait()
	defer context.AfterFunc(ctx, s.interrupt)()
	slots := make(chan struct{}, maxWaiting)
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(listenFirst), backoff.WithMaxInterval(listenMax), backoff.WithMaxElapsedTime(0))
	for {
		select {
		case slots <- struct{}{}: // questions beyond the free slots wait where they are
		case <-ctx.Done():
			return nil
		}
		message, there, err := p.pop(ctx, s.list, serverBlock)
		if ctx.Err() != nil {
			return nil
		}
		s.show(err)
		if err == nil && there {
			pause.Reset()
			s.under.Go(func() {
				defer func() { <-slots }()
				s.reply(ctx, message)
			})
			continue
		}
		<-slots
		if err != nil {
			sleep(ctx, pause.NextBackOff())
		}
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// serving is one run of Serve.
type serving struct {
	peers  *Peers
	answer func(ctx context.Context, question []byte) []byte
	list   string
	under  sync.WaitGroup // answers under way
	turns  chan struct{}  // has one for each question that is being answered
	deaf   bool           // it was logged that no question can be heard
}

// show logs that questions cannot be heard, and that they can again, once each.
func (s *serving) show(err error) {
	log := s.peers.db.engine.log
	switch {
	case err != nil && !s.deaf:
		log.Warn("not hearing the questions of other processes; it is tried again", "error", err)
	case err == nil && s.deaf:
		log.Info("hearing the questions of other processes again")
	}
	s.deaf = err != nil
}

// wakeTime bounds how long the server may take to wake Serve.
const wakeTime = time.Second

// interrupt ends the wait for a question.
func (s *serving) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), wakeTime)
	defer cancel()
	// Where it fails, the wait ends by itself.
	_, _ = s.peers.db.engine.run(ctx, pushScript, []string{s.list}, "", lasts(0), maxWaiting)
}

// reply answers one question, and ignores garbage.
func (s *serving) reply(ctx context.Context, message string) {
	e := s.peers.db.engine
	q, err := parseAsked(message)
	if err != nil {
		e.log.Debug("a message is no question", "bytes", len(message), "error", err)
		return
	}
	s.send(ctx, q, answered{s.peers.Self(), isTaken, ""})
	within, cancel := context.WithTimeout(ctx, q.within)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		s.send(ctx, q, s.ask(within, q))
	case <-within.Done(): // the asker waits no longer
	}
}

// send puts a message on the list of the question.
func (s *serving) send(ctx context.Context, q asked, a answered) {
	e := s.peers.db.engine
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), silenceTime)
	defer cancel()
	_, err := e.run(ctx, pushScript, []string{e.keys.answers(q.id)}, a.encode(), lasts(q.within), maxAnswers)
	if err != nil {
		e.log.Debug("an answer to another process could not be sent", "bytes", len(a.text), "error", err)
	}
}

// ask lets the question be answered.
func (s *serving) ask(ctx context.Context, q asked) (a answered) {
	defer func() {
		if r := recover(); r != nil {
			s.peers.db.engine.log.Error(
				"answering another process has panicked", "panic", r, "stack", string(debug.Stack()),
			)
			a = answered{s.peers.Self(), isFailed, ""}
		}
	}()
	text := s.answer(ctx, []byte(q.text))
	if len(text) > MaxAnswer {
		return answered{s.peers.Self(), isLarge, strconv.Itoa(len(text))}
	}
	return answered{s.peers.Self(), isAnswer, string(text)}
}
