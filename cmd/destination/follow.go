package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"carillon/cmd/internal/program"
	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/payload"
)

// followCommand follows a Source.
type followCommand struct {
	Topic  string `placeholder:"URL" help:"Topic to follow. Its hub, and the Source's Change List, are found from its links." group:"Source"`
	Source string `placeholder:"URL" help:"Where to begin the search for the Source's lists, instead of --topic, or with it where there are several sets. It is the site, Source Description, Capability List, any resource that links to that, or a Change List by itself. A Source without a topic is followed by its Change List." group:"Source"`

	ChangeMemory string `default:"auto" placeholder:"WHERE" help:"The hub's change memory: auto is what the hub names, none, or a URL." group:"Source" range:"auto, none or a URL"`
	ChangeList   string `name:"changelist" default:"auto" placeholder:"WHERE" help:"The Source's Change List: auto is what its Capability List names, none, or a URL." group:"Source" range:"auto, none or a URL"`
	hostsFlag    `embed:""`

	Exec        string        `placeholder:"COMMAND" help:"Run a command for each change, by the shell, with the change as JSON on its standard input and CARILLON_KEY, CARILLON_LOC, CARILLON_CHANGE, CARILLON_DATETIME and CARILLON_VIA in its environment. While it fails it is run again, and all later changes wait." group:"Output"`
	ExecTimeout time.Duration `default:"1h" help:"How long one run of the command may take; then it is ended, and has failed." group:"Output" range:"more than 0"`
	NDJSON      bool          `name:"ndjson" help:"Print each change as a line of JSON. It is the default." group:"Output"`
	mirrorFlags `embed:""`

	Dump mirror.DumpMode `default:"auto" enum:"auto,never" help:"With --mirror: whether to take content from the Source's dumps. auto takes the Resource Dump where a baseline finds more than half of the set missing here. It takes the Change Dump where 1000 changes or more are pending at the start. Missing, old and wrong content of a dump is fetched one by one. never fetches each resource." group:"Mirror"`

	publishFlags `embed:""`

	Start  string        `default:"auto" placeholder:"WHEN" help:"Where to begin, the first time: now, with what changes from now on; baseline, with the Source's Resource List and what changes from its moment on; or a datetime. auto is baseline with --mirror, else now." group:"Following" range:"auto, now, baseline or a datetime"`
	OnGap  string        `default:"auto" enum:"auto,stop,baseline,go-on" help:"What to do about changes that neither the hub nor the Source has any more. stop: end with an error. baseline: take a new baseline, with --mirror. go-on: go on, with an error in the log. auto is baseline with --mirror, else stop." group:"Following"`
	Poll   time.Duration `default:"15m" help:"How long push may be silent before the lists are looked at; without push, or while the hub is away, it is a minute at most." group:"Following" range:"more than 0"`
	Settle time.Duration `default:"2s" help:"How long to wait for a notification that was overtaken by others, before what is missing is asked for." group:"Following" range:"more than 0"`

	Data        string        `default:"destination-data" placeholder:"DIR" help:"Directory for the state: pushed changes that are not handed on yet, the position, the subscription. One for each Source." group:"Subscription"`
	Lease       time.Duration `default:"0s" placeholder:"DURATION" help:"Lease to ask for, in whole seconds; 0s leaves it to the hub." group:"Subscription" range:"0s, or whole seconds"`
	Unsubscribe bool          `help:"End the subscription when stopped. Otherwise it stays, and the hub keeps what comes meanwhile." group:"Subscription"`

	listenerFlags `embed:""`
}

// Validate refuses what does not go together. It is called when the flags are parsed.
func (f *followCommand) Validate() error {
	var all program.Refusals
	all.Refuse(f.Topic == "" && f.Source == "", "--topic or --source must say whom to follow")
	all.Refuse(f.Topic != "" && !isWebURL(f.Topic), "--topic: %q is not an absolute http or https URL", f.Topic)
	all.Refuse(f.Source != "" && !isWebURL(f.Source), "--source: %q is not an absolute http or https URL", f.Source)
	all.Refuse(
		f.ChangeMemory != auto && f.ChangeMemory != none && !isWebURL(f.ChangeMemory),
		"--change-memory: %q is neither auto nor none nor an http or https URL", f.ChangeMemory,
	)
	all.Refuse(
		f.ChangeList != auto && f.ChangeList != none && !isWebURL(f.ChangeList),
		"--changelist: %q is neither auto nor none nor an http or https URL", f.ChangeList,
	)
	all.Refuse(f.NDJSON && f.Exec != "", "--exec and --ndjson are two ways of the same: choose one")
	all.Refuse(
		f.Mirror != "" && (f.NDJSON || f.Exec != ""),
		"--mirror takes the changes itself: give --exec or --ndjson to another process",
	)
	if f.Mirror != "" {
		all = append(all, f.mirrorFlags.check())
	}
	all = append(all, f.publishFlags.check(f.Mirror))
	all.Refuse(f.ExecTimeout <= 0, "--exec-timeout must be over 0, not %s", f.ExecTimeout)
	all.Refuse(f.Poll <= 0, "--poll must be over 0, not %s", f.Poll)
	all.Refuse(f.Settle <= 0, "--settle must be over 0, not %s", f.Settle)
	all.Refuse(f.Data == "", "--data must name a directory")
	if _, _, err := f.begin(); err != nil {
		all = append(all, err)
	}
	all.Refuse(
		f.onGap() == follow.GapBaseline && f.Mirror == "",
		"--on-gap baseline needs --mirror: a receiver of changes does not learn from a baseline which resources were deleted",
	)
	return errors.Join(all...)
}

// begin reads --start.
func (f *followCommand) begin() (follow.Start, time.Time, error) {
	switch f.Start {
	case auto:
		if f.Mirror != "" {
			return follow.StartBaseline, time.Time{}, nil
		}
		return follow.StartNow, time.Time{}, nil
	case string(follow.StartNow), string(follow.StartBaseline):
		return follow.Start(f.Start), time.Time{}, nil
	}
	at, err := payload.ParseDatetime(f.Start)
	if err != nil {
		return "", at, fmt.Errorf(
			"--start: %q is neither auto nor now nor baseline nor a datetime such as 2026-01-02T03:04:05Z", f.Start,
		)
	}
	return follow.StartAt, at, notAhead("start", f.Start, at)
}

func (f *followCommand) onGap() follow.OnGap {
	switch {
	case f.OnGap == auto && f.Mirror != "":
		return follow.GapBaseline
	case f.OnGap == auto:
		return follow.GapStop
	}
	return follow.OnGap(f.OnGap)
}

// subscriptionConfig is what the flags say of the subscription to a topic.
func (f *followCommand) subscriptionConfig(topic string, sink destination.Sink, logger *slog.Logger) destination.Config {
	return destination.Config{
		Topic: topic, URL: f.URL, Data: f.Data, Lease: f.Lease, Sink: sink,
		Stay: !f.Unsubscribe, SinkSeesGaps: true, Logger: logger, UserAgent: userAgent,
	}
}

// Look implements program.Looker.
func (f *followCommand) Look(_ context.Context, logger *slog.Logger) error {
	topic := f.Topic
	if topic == "" {
		topic = "http://localhost/" // found from --source
	}
	_, err := f.client(logger)
	return errors.Join(f.listenerFlags.checkConfig(f.subscriptionConfig(topic, destination.NewPrinter(io.Discard, true), logger)),
		f.mirrorFlags.checkConfig(), f.publishFlags.checkConfig(), err)
}
