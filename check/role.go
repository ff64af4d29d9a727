package check

import "strconv"

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

// handling is what the walk does with a lead of a role.
type handling struct {
	// name says what leads there, as the beginning of a sentence.
	name string
	// missing is the rule that is broken where nothing is there; of a start there is none.
	missing ruleID
	// judge judges what the lead and its target say of each other; nil for nothing.
	judge func(*walk, *lead, *document)
}

// handlings returns what is done with each role.
func handlings() [roleCount]handling {
	return [roleCount]handling{
		roleStart:     {name: "the place"},
		roleWellKnown: {"the Source Description at", ruleWellKnown, (*walk).judgeWellKnown},
		rolePage:      {name: "the page"},
		roleSitemap: {
			"the Sitemap line of robots.txt to", ruleSitemapLine,
			(*walk).judgeSitemap,
		},
		roleLinked:     {"the link with rel=resourcesync to", ruleLinked, (*walk).judgeLinked},
		roleUp:         {"the link with rel=up to", ruleUpThere, (*walk).judgeUp},
		roleIndex:      {"the link with rel=index to", ruleIndexThere, (*walk).judgeIndex},
		rolePart:       {"the part", rulePartThere, (*walk).judgePart},
		roleSet:        {"the Capability List", ruleSetThere, (*walk).judgeSet},
		roleCapability: {"the document", ruleCapabilityThere, (*walk).judgeCapability},
		roleTopic:      {"the topic", ruleTopicThere, (*walk).judgeTopic},
		roleArchives:   {"the link with rel=archives to", ruleArchivesThere, (*walk).judgeArchives},
		roleArchived:   {"the archived document", ruleArchivedThere, (*walk).judgeArchived},
		roleContents:   {"the link with rel=contents to", ruleContentsThere, (*walk).judgeContents},
		rolePackage:    {"the package", rulePackageThere, (*walk).judgePackage},
	}
}

// nth is the name of an element of an entry: url[3], sitemap[3].
func nth(index bool, n int) string {
	name := "url["
	if index {
		name = "sitemap["
	}
	return name + strconv.Itoa(n) + "]"
}
