package dispatch

import (
	"hash/maphash"
	"strings"

	"carillon/subscription"
)

// lately is how many of the secrets that were seen once are remembered.
const lately = 8192

// secretRef is an index in secrets; 0 stands for no secret.
type secretRef uint32

// secrets holds what more than one subscription has as its secret, once. Most
// have one of their own, which stays with its entry: only those seen lately are
// remembered, to see who comes with the same. So of a secret that comes back after
// many others there may be a few copies. Guarded by table.mu.
type secrets struct {
	seed   maphash.Seed
	byText map[string]secretRef
	all    []sharedSecret // [0] is unused
	free   []secretRef
	seen   []string // by hash, as a part of the entry's text
}

type sharedSecret struct {
	text  string
	users int
}

func newSecrets() secrets {
	return secrets{
		seed: maphash.MakeSeed(), byText: map[string]secretRef{},
		all: make([]sharedSecret, 1), seen: make([]string, lately),
	}
}

// share returns the index of a secret that another entry has, 0 if no such entry is known. The caller
// gives it back with drop.
func (s *secrets) share(text string) secretRef {
	if text == "" {
		return 0
	}
	if r, found := s.byText[text]; found {
		s.all[r].users++
		return r
	}
	seen := s.slot(text)
	if *seen != text {
		return 0
	}
	*seen = ""
	shared := sharedSecret{strings.Clone(text), 1}
	r := secretRef(len(s.all))
	if n := len(s.free); n > 0 {
		r, s.free = s.free[n-1], s.free[:n-1]
		s.all[r] = shared
	} else {
		s.all = append(s.all, shared)
	}
	s.byText[shared.text] = r
	return r
}

// note remembers an entry's own secret.
func (s *secrets) note(text string) { *s.slot(text) = text }

func (s *secrets) slot(text string) *string {
	return &s.seen[maphash.String(s.seed, text)%lately]
}

// drop gives a shared secret back.
func (s *secrets) drop(r secretRef) {
	if r == 0 {
		return
	}
	shared := &s.all[r]
	if shared.users--; shared.users == 0 {
		delete(s.byText, shared.text)
		*shared = sharedSecret{}
		s.free = append(s.free, r)
	}
}

func (s *secrets) value(r secretRef) subscription.Secret { return subscription.Secret(s.all[r].text) }
