package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/payload"
)

// The topics of a soak.
const (
	topicPlain = "plain" // content of several publishers
	topicDeaf  = "deaf"  // likewise; without an answer it is not repeated
	topicChain = "chain" // change notifications of one Source, repeated until they are accepted
	topicPings = "pings" // content that the hub fetches
)

var soakTopics = []string{topicPlain, topicDeaf, topicChain, topicPings}

// soakPublication is one that was accepted.
type soakPublication struct {
	id, body        string
	begun, answered time.Time // begun: the first attempt
}

var errNoHub = errors.New("no hub is up")

// post makes a request to one of the hubs that are up.
func (s *soak) post(n int, header http.Header, body string, patience time.Duration) (int, string, error) {
	address := ""
	s.locked(func() {
		if len(s.up) > 0 {
			address = s.up[n%len(s.up)]
		}
	})
	if address == "" {
		return 0, "", errNoHub
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}

// publish publishes a body, again and again for as long as retry lasts, and returns whether it was
// accepted.
func (s *soak) publish(n int, topic, contentType, body string, patience, retry time.Duration) bool {
	header := http.Header{
		"Content-Type": {contentType},
		"Link":         {fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.topicURL(topic), s.hubURL)},
	}
	s.locked(func() { s.published[topic][body] = len(s.published[topic]) + 1 })
	begun := time.Now()
	for {
		status, id, err := s.post(n, header, body, patience)
		if err == nil && status == http.StatusOK {
			s.locked(func() {
				s.accepted[topic] = append(s.accepted[topic], &soakPublication{id, body, begun, time.Now()})
			})
			return true
		}
		s.checkStatus(status, id, err)
		if n++; time.Since(begun) >= retry {
			return false
		}
		<-time.After(soakPause)
	}
}

// checkStatus records an answer that is no acceptance; those that no fault explains are errors.
func (s *soak) checkStatus(status int, text string, err error) {
	if err == nil && status != http.StatusServiceUnavailable {
		s.locked(func() { s.faultf("a publisher was answered %d: %s", status, text) })
	}
}

// publishContent publishes until stop is closed: each body once, or until it is
// accepted.
func (s *soak) publishContent(stop <-chan struct{}, topic string, publisher int, retry time.Duration) {
	for n := 0; s.next(stop); n++ {
		s.publish(n+publisher, topic, "text/plain", fmt.Sprintf("%d/%d", publisher, n), max(time.Second, retry), retry)
	}
}

// next waits for the time between two publications, and reports whether there is to be
// another.
func (s *soak) next(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(soakBetween):
		return true
	}
}

// publishChain publishes change notifications.
func (s *soak) publishChain(stop <-chan struct{}) {
	for n := 0; s.next(stop) && s.publishChange(n); n++ {
	}
}

// publishChange publishes a change notification until it is accepted: the next begins
// where it ended. It is not given up while it may still be accepted, so the limits are
// wide.
func (s *soak) publishChange(n int) bool {
	from := s.chained
	s.chained = from.Add(time.Millisecond)
	body, err := change(n, from, s.chained)
	if err != nil {
		s.locked(func() { s.faultf("writing a change notification: %v", err) })
		return false
	}
	accepted := s.publish(n, topicChain, "application/xml", body, soakPatience, soakPatience)
	if !accepted {
		s.locked(func() { s.faultf("a change notification was not accepted within %s", soakPatience) })
	}
	return accepted
}

func change(n int, from, until time.Time) (string, error) {
	var b bytes.Buffer
	w, err := payload.NewNotificationWriter(&b, payload.Interval{From: from, Until: until}, "")
	if err != nil {
		return "", err
	}
	err = w.Write(&payload.Entry{Loc: fmt.Sprintf("https://source.example/%d", n), Change: payload.Updated, Datetime: from})
	err = errors.Join(err, w.Close())
	return b.String(), err
}

// ping changes the topic of pings and says so until that is accepted.
func (s *soak) ping(n int) bool {
	s.locked(func() { s.pinged++ })
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	form := url.Values{"hub.mode": {"publish"}, "hub.url": {s.topicURL(topicPings)}}
	for end := time.Now().Add(soakPatience); time.Now().Before(end); n++ {
		status, text, err := s.post(n, header, form.Encode(), soakPatience)
		if err == nil && status == http.StatusNoContent {
			s.locked(func() { s.pings++ })
			return true
		}
		s.checkStatus(status, text, err)
		<-time.After(soakPause)
	}
	s.locked(func() { s.faultf("a ping was not accepted within %s", soakPatience) })
	return false
}

func (s *soak) pingOn(stop <-chan struct{}) {
	for n := 0; s.next(stop); n++ {
		s.ping(n)
	}
}
