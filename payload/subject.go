package payload

import (
	"strings"
)

// subject is what kind of document an Inspector judges.
type subject struct {
	capability string // as the document says, or as it should
	kind       *kind  // of the capability; nil for an unknown one
	index      bool   // the root is sitemapindex
}

func (s *subject) isNotification() bool {
	return strings.HasSuffix(s.capability, notificationSuffix)
}

// times returns which times the document states as a whole.
func (s *subject) times() timesOf {
	if s.kind == nil {
		return noTimes
	}
	return s.kind.times
}

// lists returns what the entries are; 0 for those of an index, or if it is unknown.
func (s *subject) lists() listed {
	if s.kind == nil || s.index && s.kind.index != "" && s.kind.lists != capabilities {
		return 0
	}
	return s.kind.lists
}

// place is where the entries stand.
func (s *subject) place() place {
	switch l := s.lists(); {
	case s.kind == nil:
		return ofChange
	case l == resources:
		return ofResource
	case l == changes:
		return ofChange
	case l == bitstreams && s.kind.times == interval:
		return ofPackagedChange
	case l == bitstreams:
		return ofPackagedResource
	}
	return ofDocument
}

// clause is where the document is described.
func (s *subject) clause() string {
	switch {
	case s.kind == nil:
		return clauseCore
	case s.index && s.kind.index != "":
		return s.kind.index
	}
	return s.kind.clause
}
