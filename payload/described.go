package payload

import (
	"strings"
)

// DocumentName returns what the documents of a capability are called, such as "Resource List"
// or "Resource List Index". It is empty for an unknown capability.
func DocumentName(capability string, index bool) string {
	k := kindOf(capability)
	switch {
	case k == nil:
		return ""
	case index:
		return k.name + " Index"
	}
	return k.name
}

// ClauseOf returns the clause that describes the documents of a capability, or their index. For an
// unknown capability, or an index that no clause describes, it is core §7.
func ClauseOf(capability string, index bool) string {
	clause := clauseCore
	if k := kindOf(capability); k != nil {
		if clause = k.clause; index && k.index != "" {
			clause = k.index
		}
	}
	return clause
}

// PlainClause spells a clause without the section sign, for programs that read it: core 11.2.
func PlainClause(clause string) string { return strings.ReplaceAll(clause, "§", "") }
