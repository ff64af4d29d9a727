package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Bounds of sessions.
const (
	// sessionIdle ends an unused session.
	sessionIdle = 2 * time.Hour
	// sessionMax ends every session.
	sessionMax = 24 * time.Hour
	// maxSessions are kept: a login beyond ends the one that was not used for longest.
	maxSessions = 100
)

// sessions are the browsers that have logged in. They are in memory: a restart ends them. Only a hash
// of the cookie is kept, so that a look at memory yields no cookie, and a lookup reveals nothing by
// its time.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session // guarded by mu, with what is in it
}

type session struct {
	begun, used time.Time
	token       [sha256.Size]byte // that it was begun with: another ends it
}

func newSessions() sessions { return sessions{byID: map[[sha256.Size]byte]*session{}} }

// begin returns the cookie of a new session.
func (s *sessions) begin(token [sha256.Size]byte) string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails (crypto/rand)
	cookie := base64.RawURLEncoding.EncodeToString(random)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(now)
	s.byID[sha256.Sum256([]byte(cookie))] = &session{begun: now, used: now, token: token}
	return cookie
}

// evict forgets what is over, and one that is not where there are too many. The lock is
// held.
func (s *sessions) evict(now time.Time) {
	var oldest [sha256.Size]byte
	var used time.Time
	for id, one := range s.byID {
		switch {
		case one.over(now):
			delete(s.byID, id)
		case used.IsZero() || one.used.Before(used):
			oldest, used = id, one.used
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, oldest)
	}
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.used) > sessionIdle || now.Sub(s.begun) > sessionMax
}

// use reports whether the cookie is one of a session, which then was used now.
func (s *sessions) use(cookie string, token [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.find(cookie, token)
	if one != nil {
		one.used = time.Now()
	}
	return one != nil
}

// holds is use without using.
func (s *sessions) holds(cookie string, token [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(cookie, token) != nil
}

// find is nil without one that is good. The lock is held.
func (s *sessions) find(cookie string, token [sha256.Size]byte) *session {
	if cookie == "" {
		return nil
	}
	id := sha256.Sum256([]byte(cookie))
	one := s.byID[id]
	if one == nil {
		return nil
	}
	if one.over(time.Now()) || subtle.ConstantTimeCompare(one.token[:], token[:]) != 1 {
		delete(s.byID, id)
		return nil
	}
	return one
}

// end forgets a session.
func (s *sessions) end(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(cookie)))
}

// cookieName separates the sessions of several hubs on one machine: cookies do not know ports.
func cookieName(r *http.Request) string {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return "carillon_session_" + strconv.Itoa(local.Port)
	}
	return "carillon_session"
}

// sessionOf is the cookie of a request, "" where it has none.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}
