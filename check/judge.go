package check

import (
	"context"
	"errors"

	"carillon/payload"
)

// judge compares what a round has read: each lead with its target, intervals, sets.
type judge struct {
	evidence
	links linkJudge
	times timeJudge
	sets  setJudge
}

func newJudge(e evidence) *judge {
	return &judge{evidence: e, links: linkJudge{e}, times: timeJudge{e}, sets: setJudge{e}}
}

// run judges the round, or what can be judged of it until the caller cancels ctx. A time that is
// over does not end it. The findings are held back: see conclude.
func (j *judge) run(ctx context.Context) {
	j.hold()
	defer j.release()
	j.pages = nil
	givenUp := func() bool { return errors.Is(context.Cause(ctx), context.Canceled) }
	for i := 0; i < len(j.arrivals) && !givenUp(); i++ {
		j.judgeArrival(&j.arrivals[i])
	}
	j.gather()
	for _, d := range j.documents {
		if givenUp() {
			return
		}
		j.judgeDocument(d)
	}
	j.sets.judgeSets()
	j.sets.judgePages()
	j.about = func() []*document { return j.documents }
	j.judgeDescriptions()
}

// judgeDocument judges a document by what it lists and by those that belong to it.
func (j *judge) judgeDocument(d *document) {
	if !d.known {
		return
	}
	j.about = func() []*document { return j.around(d) }
	if d.whole {
		j.times.judgeOrder(d)
	}
	if d.is(payload.CapResourceDump) || d.is(payload.CapChangeDump) {
		j.links.judgeFormats(d)
	}
	j.sets.judgeOneEntry(d)
	j.times.judgeArchiveEnds(d)
	j.judgeListed(d)
}

// judgeArrival judges what a lead says of its target.
func (j *judge) judgeArrival(a *arrival) {
	l, d := &a.lead, a.d
	j.about = func() []*document { return []*document{l.from, d} }
	if l.from != nil && !j.links.isThere(l, d) {
		j.breaks(l.set)
		return
	}
	if d.broken || d.known && l.set != "" && j.setAt(d.set) != j.setAt(l.set) {
		j.breaks(l.set) // the read documents belong to another set, or something is missing
	}
	j.links.judge(l, d)
}

// judgeListed: a Capability List enumerates the documents that link up to it (core 9). Parts
// are listed by their index, archived documents by an archive, manifests by a dump.
func (j *judge) judgeListed(d *document) {
	switch d.head.Capability {
	case payload.CapDescription, payload.CapCapabilityList, payload.CapResourceDumpManifest,
		payload.CapChangeDumpManifest, "":
		return
	}
	up := d.link(payload.RelUp)
	if up == nil || d.local || d.link(payload.RelIndex) != nil || d.led(rolePart) ||
		d.led(roleArchived) || d.led(roleCapability) || d.isTopic() {
		return
	}
	to := d.resolve(up.Href)
	if to == nil {
		return
	}
	above := j.seen[to.String()]
	if above == nil || !above.is(payload.CapCapabilityList) || !above.whole || above.cut ||
		j.mayList(above, d) || d.isArchivedLink() || j.isListedElsewhere(above, d) {
		return
	}
	j.report(ruleListed, above.place(""), above, "add a url for it",
		"%s, a %s that links to it with rel=up, is not listed",
		quote(d.uri), kindOf(d.head.Capability, d.isIndex()))
}

// judgeDescriptions: a site has a Source Description (core 6.3.2).
func (j *judge) judgeDescriptions() {
	for _, u := range j.undescribed {
		j.report(ruleDescription, place{uri: u.String()}, nil,
			"publish a Source Description at "+wellKnown,
			"no Source Description was found: not at %s, nor by links of the page or by robots.txt",
			wellKnown)
	}
}

// judge judges what a lead and its target say of each other.
func (j *linkJudge) judge(l *lead, d *document) {
	judges := [roleCount]func(*lead, *document){
		roleWellKnown: j.judgeWellKnown, roleSitemap: j.judgeSitemap, roleLinked: j.judgeLinked,
		roleUp: j.judgeUp, roleIndex: j.judgeIndex, rolePart: j.judgePart, roleSet: j.judgeSet,
		roleCapability: j.judgeCapability, roleTopic: j.judgeTopic,
		roleArchives: j.judgeArchives, roleArchived: j.judgeArchived,
		roleContents: j.judgeContents, rolePackage: j.judgePackage,
	}
	if judge := judges[l.role]; judge != nil {
		judge(l, d)
	}
}
