package main

import (
	"fmt"
	"strings"

	"carillon/notifier"
)

// describeFlags name documents for people about the Source and its sets.
type describeFlags struct {
	Describedby []string `sep:"none" placeholder:"[SET=]URL" help:"A document about the Source, or about one of its sets; the Source Description and the Capability Lists link to it. Repeatable." group:"Descriptions"`
}

// documents returns the address for each set; that of the Source is under "".
func (f *describeFlags) documents() (map[string]string, error) {
	all := map[string]string{}
	for _, text := range f.Describedby {
		set, uri, named := strings.Cut(text, "=")
		if !named || strings.Contains(set, ":") { // the = is in the query of a URL
			set, uri = "", text
		}
		if _, twice := all[set]; twice {
			return nil, fmt.Errorf("--describedby: there is more than one document for %s", whose(set))
		}
		all[set] = uri
	}
	return all, nil
}

func whose(set string) string {
	if set == "" {
		return "the Source"
	}
	return fmt.Sprintf("the set %q", set)
}

func (f *describeFlags) check() error {
	_, err := f.documents()
	return err
}

func (f *describeFlags) into(cfg *notifier.Config) {
	cfg.DescribedBy, _ = f.documents() // check has seen the error
}
