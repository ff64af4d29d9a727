package source

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"carillon/topic"
)

// Limits of what is registered. They stop mistakes, not attacks: only the operator registers
// Sources.
const (
	// MaxSources is how many Sources there may be: all are in memory, and are read every
	// few seconds.
	MaxSources = 10_000
	// MaxPrefixes is how many prefixes a Source may have: each is looked at for a topic.
	MaxPrefixes = 100
	// MaxPrefix is the longest prefix, bytes.
	MaxPrefix = 2048
)

// Source is a registered publisher.
type Source struct {
	// Name is the operator's name for it: [A-Za-z0-9][A-Za-z0-9._-]{0,63}.
	Name string
	// Prefixes are the URLs at and below which its topics are, as they were given.
	Prefixes []string
	// TokenHash is what is kept of its token.
	TokenHash Hash
	// Created is when it was registered, and Issued when its token was made.
	Created time.Time
	Issued  time.Time
}

var errTooLong = fmt.Errorf("is longer than %d bytes", MaxPrefix)

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName refuses what is no name of a Source.
func CheckName(s string) error {
	if !name.MatchString(s) {
		return fmt.Errorf(
			"%.80q is not a name of letters, digits, dots, underscores and hyphens that begins with a letter or a digit and has at most 64 characters",
			s,
		)
	}
	return nil
}

// checkPrefix refuses what is no prefix of topics. The error reads well behind it.
func checkPrefix(raw string) error {
	if len(raw) > MaxPrefix {
		return errTooLong
	}
	_, err := topic.ParsePrefix(raw)
	return err
}

// Validate refuses what no Store may keep.
func (s Source) Validate() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case len(s.Prefixes) == 0:
		return errors.New("a Source needs a topic prefix: without one it could publish nothing")
	case len(s.Prefixes) > MaxPrefixes:
		return fmt.Errorf("a Source has %d topic prefixes at most, not %d", MaxPrefixes, len(s.Prefixes))
	case s.TokenHash == Hash{}:
		return errors.New("the Source has no token")
	case s.Created.IsZero() || s.Issued.IsZero():
		return errors.New("the Source has no times")
	}
	for _, p := range s.Prefixes {
		if err := checkPrefix(p); err != nil {
			return fmt.Errorf("topic prefix %.200q %w", p, err)
		}
	}
	return nil
}

// Same reports whether all fields are equal. Times are compared as instants.
func (s Source) Same(other Source) bool {
	return s.Name == other.Name && slices.Equal(s.Prefixes, other.Prefixes) && s.TokenHash == other.TokenHash &&
		s.Created.Equal(other.Created) && s.Issued.Equal(other.Issued)
}
