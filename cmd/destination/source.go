package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"carillon/destination/lists"
)

// sourceFlags say whose lists are read.
type sourceFlags struct {
	Source    string `required:"" placeholder:"URL" help:"Where to begin the search for the Source's lists: its site, Source Description, Capability List, topic, or any resource that links to the Capability List. A Resource List, Change List or sitemap without a Capability List is taken by itself." group:"Source"`
	Topic     string `placeholder:"URL" help:"Topic of the set that is meant, where the Source has several." group:"Source"`
	hostsFlag `embed:""`
	Data      string `default:"destination-data" placeholder:"DIR" help:"Directory for the state: what the copies are, and up to when changes were taken. One for each Source; follow goes on where the other commands have ended." group:"Mirror"`
}

func (f *sourceFlags) check() error {
	if f.Source == "" {
		return errors.New("--source must say whose resources")
	}
	if f.Topic != "" && !isWebURL(f.Topic) {
		return fmt.Errorf("--topic: %q is not an absolute http or https URL", f.Topic)
	}
	if !isWebURL(f.Source) {
		return fmt.Errorf("--source: %q is not an absolute http or https URL", f.Source)
	}
	if f.Data == "" {
		return errors.New("--data must name a directory")
	}
	return nil
}

// hostsFlag says to which hosts documents may lead.
type hostsFlag struct {
	TrustHost []string `placeholder:"HOST" help:"Host to which the Source's documents may lead besides their own, with or without a port; several by repeating the flag or separated by commas." group:"Source"`
}

func (f *hostsFlag) client(logger *slog.Logger) (*lists.Client, error) {
	return trusting(f.TrustHost, logger)
}

// trusting returns a client that goes to hosts, among others.
func trusting(hosts []string, logger *slog.Logger) (*lists.Client, error) {
	client, err := lists.New(lists.Config{UserAgent: userAgent, Logger: logger, Hosts: hosts})
	if err != nil {
		return nil, fmt.Errorf("--trust-host: %w", err)
	}
	return client, nil
}

// maxNamed is how many sets an error names.
const maxNamed = 10

// errWhichSet: the Source has several sets, and no flag names one.
var errWhichSet = errors.New("which set of resources is meant is not clear")

// discover finds the set of a topic; without a topic, the only set.
func discover(ctx context.Context, client *lists.Client, start, topic string) (lists.Set, error) {
	sets, err := client.Discover(ctx, start)
	if err != nil {
		return lists.Set{}, err
	}
	for _, set := range sets {
		if topic != "" && set.Topic == topic {
			return set, nil
		}
	}
	if len(sets) == 1 && (topic == "" || start == topic || sets[0].Topic == "") {
		return sets[0], nil
	}
	var named []string
	for _, set := range sets[:min(len(sets), maxNamed)] {
		named = append(named, fmt.Sprintf("%.300q (topic %.300q)", addresses(&set)[0], orNone(set.Topic)))
	}
	if topic != "" {
		return lists.Set{}, fmt.Errorf(
			"%w: none of the %d sets at %s has the topic %s: %s", errWhichSet, len(sets), start,
			topic, strings.Join(named, ", "),
		)
	}
	return lists.Set{}, fmt.Errorf(
		"%w: name one of the %d sets at %s by --topic, or by its address as --source: %s",
		errWhichSet, len(sets), start, strings.Join(named, ", "),
	)
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// addresses are those by which a set is known.
func addresses(set *lists.Set) []string {
	return slices.DeleteFunc([]string{
		set.CapabilityList, set.Topic, set.ChangeList, set.ResourceList, set.ChangeDump, set.ResourceDump,
		set.ChangeListArchive, set.ResourceListArchive, set.ChangeDumpArchive, set.ResourceDumpArchive,
	}, func(s string) bool { return s == "" })
}
