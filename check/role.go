package check

// role is what a lead says that its target is.
type role int

const (
	roleStart      role = iota // a place that the caller named
	roleWellKnown              // /.well-known/resourcesync
	rolePage                   // the first page of a site
	roleSitemap                // a Sitemap line of a robots.txt
	roleLinked                 // rel=resourcesync of a page
	roleUp                     // rel=up
	roleIndex                  // rel=index
	rolePart                   // a sitemap of an index
	roleSet                    // a url of a Source Description
	roleCapability             // a url of a Capability List
	roleTopic                  // a url of a Capability List that is a channel
	roleArchives               // rel=archives
	roleArchived               // a url of an archive
	roleContents               // rel=contents
	rolePackage                // a url of a dump
	roleCount
)

// roles are the roles: the link that leads there, as the beginning of a sentence, and the rule that is
// broken if nothing is there. A start has neither.
var roles = [roleCount]struct {
	name    string
	missing ruleID
}{
	roleStart:      {name: "the place"},
	roleWellKnown:  {"the Source Description at", ruleWellKnown},
	rolePage:       {name: "the page"},
	roleSitemap:    {"the Sitemap line of robots.txt to", ruleSitemapLine},
	roleLinked:     {"the link with rel=resourcesync to", ruleLinked},
	roleUp:         {"the link with rel=up to", ruleUpThere},
	roleIndex:      {"the link with rel=index to", ruleIndexThere},
	rolePart:       {"the part", rulePartThere},
	roleSet:        {"the Capability List", ruleSetThere},
	roleCapability: {"the document", ruleCapabilityThere},
	roleTopic:      {"the topic", ruleTopicThere},
	roleArchives:   {"the link with rel=archives to", ruleArchivesThere},
	roleArchived:   {"the archived document", ruleArchivedThere},
	roleContents:   {"the link with rel=contents to", ruleContentsThere},
	rolePackage:    {"the package", rulePackageThere},
}
