package check

import "strings"

// Rule is a row of the table of rules.
type Rule struct {
	Number int
	Duties []string
	Clause string
	Level  Level
	Looks  string
}

// Rules is the table of rules.
func Rules() (all []Rule) {
	for n := range rules {
		r := &rules[n]
		all = append(all, Rule{Number: n, Duties: strings.Fields(r.ids), Clause: r.clause, Level: r.level, Looks: r.looks})
	}
	return all
}

// RuleOf returns the number of the rule that a finding is of, or -1 for a rule of package payload or a note.
func RuleOf(f *Finding) int {
	if f.rule == nil {
		return -1
	}
	return int(*f.rule)
}
