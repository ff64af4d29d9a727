package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"carillon/internal/faults"
)

// soakHost is a server of callbacks behind a network of its own.
type soakHost struct {
	url     string
	network *faults.Network
}

// soakHostRates are the shares of requests that each host's network disturbs. The
// first host is healthy: the lists of its subscribers are what others are held
// against.
var soakHostRates = []float64{0, 0.15, 0.3, 0.5}

func (s *soak) serveHost(seed uint64, rate float64) *soakHost {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	h := &soakHost{url: "http://" + ln.Addr().String(), network: faults.NewNetwork(faults.NetworkConfig{Seed: seed, Rate: rate})}
	server := &http.Server{Handler: h.network.Handler(s.answer)}
	s.telling.Go(func() { _ = server.Serve(h.network.Listener(ln)) }) // until it is closed
	s.t.Cleanup(func() { server.Close() })
	return h
}

// soakArrival is a notification that a callback read whole and answered with 200.
type soakArrival struct {
	id, body string
	at       time.Time
	lost     bool // the answer may not have reached the hub
	period   int
	secret   int         // of those of the period
	by       *soakSender // the process that sent it
}

// answer is what callbacks answer.
func (s *soak) answer(r *http.Request, lost bool) faults.Answer {
	var sub *soakSubscriber
	s.locked(func() { sub = s.subscribers[strings.TrimPrefix(r.URL.Path, "/callback/")] })
	if sub == nil {
		return faults.Answer{Status: http.StatusNotFound}
	}
	if r.Method == http.MethodGet {
		return sub.confirm(r, lost)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return faults.Answer{Status: http.StatusBadRequest} // the hub died in the middle
	}
	sub.accept(r, string(body), lost)
	return faults.Answer{Status: http.StatusOK}
}

// confirm answers what the callback is asked: it stands by its last request.
func (u *soakSubscriber) confirm(r *http.Request, lost bool) faults.Answer {
	q := r.URL.Query()
	s := u.soak
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Get("hub.topic") != u.topicURL || q.Get("hub.mode") != u.want {
		if q.Get("hub.mode") == "denied" {
			s.faultf("%s was denied: %s", u.name, q.Get("hub.reason"))
		}
		return faults.Answer{Status: http.StatusNotFound}
	}
	if u.want == "subscribe" {
		p := u.periods[len(u.periods)-1]
		p.confirmed = append(p.confirmed, time.Now())
	}
	if !lost {
		u.sure++
	}
	s.cond.Broadcast()
	return faults.Answer{Status: http.StatusOK, Body: []byte(q.Get("hub.challenge"))}
}

// accept records a delivery, by the period whose secret it is signed with.
func (u *soakSubscriber) accept(r *http.Request, body string, lost bool) {
	s := u.soak
	s.mu.Lock()
	defer s.mu.Unlock()
	signature := r.Header.Get("X-Hub-Signature")
	a := soakArrival{id: r.Header.Get("X-Hub-Notification-Id"), body: body, at: time.Now(), lost: lost, period: -1, by: s.sender(signature)}
	for i := len(u.periods) - 1; i >= 0 && a.period < 0; i-- {
		for n, secret := range u.periods[i].secrets {
			if signed(signature, secret, body) {
				a.period, a.secret = i, n
			}
		}
	}
	if a.period < 0 {
		s.faultf("%s got %q without a signature by any of its secrets", u.name, body)
		return
	}
	if link := r.Header.Get("Link"); !strings.Contains(link, fmt.Sprintf(`<%s>; rel="self"`, u.topicURL)) ||
		!strings.Contains(link, fmt.Sprintf(`<%s>; rel="hub"`, s.hubURL)) {
		s.faultf("%s got the links %q", u.name, link)
	}
	u.seen[a.id] = true
	p := u.periods[a.period]
	p.used = max(p.used, a.secret+1)
	u.got = append(u.got, a)
	s.cond.Broadcast()
}

// signed reports whether a body is signed with the secret.
func signed(signature, secret, body string) bool {
	methods := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}
	method, sum, _ := strings.Cut(signature, "=")
	if methods[method] == nil {
		return false
	}
	mac := hmac.New(methods[method], []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil)) == sum
}

// serveTopic answers for every topic. That of pings reports which ping was the last.
func (s *soak) serveTopic(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="self", <%s>; rel="hub"`, r.Host, r.URL.Path, s.hubURL))
	w.Header().Set("Content-Type", "text/plain")
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(w, "ping %d", s.pinged)
}
