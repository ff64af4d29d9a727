package check

// ruleID is a rule of this package.
type ruleID int

// The rules. Those of one document are in package payload.
const (
	ruleXML ruleID = iota
	ruleLimits
	ruleMediaType
	ruleNowhere

	ruleWellKnown
	ruleWellKnownIs
	ruleDescription
	ruleSitemapLine
	ruleSitemap
	ruleLinked
	ruleLinkedIs
	ruleLinkedCovers

	ruleUpThere
	ruleUp
	ruleNoUp
	ruleIndexThere
	ruleIndex
	ruleIndexSame
	ruleIndexListed
	rulePartThere
	rulePartList
	rulePartSame
	rulePartBack

	ruleSetThere
	ruleSet
	ruleSetListed
	ruleSetLastMod
	ruleCapabilityThere
	ruleCapability
	ruleCapabilityUp
	ruleCapabilityLastMod
	ruleListed
	ruleResourceOnce
	ruleSameSet
	ruleChangesTold
	ruleChangesPacked
	ruleSnapshot
	ruleLastMod

	ruleFuture
	ruleEntryTimes
	ruleClosed
	ruleOpen
	ruleClosedChanged
	ruleSnapshotAt
	ruleSnapshotCompleted
	ruleIndexFrom
	ruleIndexUntil
	ruleChainOrder
	ruleChainOpen
	ruleChainOverlap
	ruleChainGap

	rulePackageThere
	rulePackageSafe
	rulePackageZIP
	ruleOneFormat
	rulePackageLength
	rulePackageHash
	rulePackageType
	rulePackageTimes
	rulePackageOrder
	ruleManifestThere
	ruleManifestIs
	ruleManifestUp
	rulePathThere
	ruleBitstreamLength
	ruleBitstreamHash
	ruleUnlisted
	ruleContentsThere
	ruleContentsIs
	ruleContents
	ruleContentsAttributes

	ruleArchivesThere
	ruleArchives
	ruleArchivedThere
	ruleArchived
	ruleArchivedTimes
	ruleArchiveEnd

	ruleTopicThere
	ruleTopicAnswers
	ruleTopicType
	ruleTopicSelf
	ruleSelfIsTopic
	ruleOneSelf
	ruleOtherSelf
	ruleTopicHub
	ruleTopicEmpty
	ruleOwnChannel
	ruleOwnSet
	ruleChannelListed
	ruleSameHub
	ruleHubAnswers
	ruleHubThere

	ruleResourceThere
	ruleResourceLength
	ruleResourceHash
	ruleResourceType
	ruleResourceEncoding
	ruleResourceLastMod
	ruleDuplicate
	ruleAlternate
	ruleCanonical
	rulePatch
	ruleDescribedBy
	ruleMemento
	ruleCollection
	ruleVia

	ruleCount
)

// rule is one row of the table.
type rule struct {
	// ids are the duties of the checklist that it looks at, such as "RD-5 G-11".
	ids string
	// clause is where the rule stands; empty where that is the clause of the document's kind.
	clause string
	level  Level
	// looks says what it looks at.
	looks string
}

// rules is the table of what this package looks at.
var rules = [ruleCount]rule{
	ruleXML:       {"G-1", "core 6.1", Error, "a document is XML in UTF-8 with the root urlset or sitemapindex"},
	ruleLimits:    {"G-2", "core 7", Error, "a document has at most 50,000 entries and 50 MB"},
	ruleMediaType: {"G-1", "core 6.1", Warning, "a document is served as XML"},
	ruleNowhere:   {"DI-2", "core 6.3.3", Error, "a place is a document, or links to one"},

	ruleWellKnown:    {"DI-1", "core 6.3.2", Warning, "/.well-known/resourcesync answers"},
	ruleWellKnownIs:  {"DI-1 SD-1", "core 6.3.2", Error, "/.well-known/resourcesync is a Source Description"},
	ruleDescription:  {"DI-1 DI-4 SD-1", "core 6.3.2", Error, "a site has a Source Description"},
	ruleSitemapLine:  {"DI-3", "core 6.3.4", Warning, "Sitemap lines of robots.txt lead to what is there"},
	ruleSitemap:      {"DI-3", "core 6.3.4", Error, "Sitemap lines of robots.txt lead to Resource Lists"},
	ruleLinked:       {"DI-2", "core 6.3.3", Error, "rel=resourcesync leads to what is there"},
	ruleLinkedIs:     {"DI-2", "core 6.3.3", Error, "rel=resourcesync leads to a Capability List"},
	ruleLinkedCovers: {"DI-2", "core 6.3.3", Error, "the Capability List covers the resource that links to it"},

	ruleUpThere: {"G-11 DI-4 CL-2 RL-2 RI-2 RD-3 RM-3 CH-2 CX-3 CD-2 CM-3 AR-4", "", Error, "rel=up leads to what is there"},
	ruleUp: {
		"G-11 DI-4 CL-2 RL-2 RI-2 RD-3 RM-3 CH-2 CX-3 CD-2 CM-3 AR-4", "", Error,
		"rel=up leads to the Capability List, that of a Capability List to the Source Description",
	},
	ruleNoUp:        {"SD-7", "core 8", Error, "a Source Description has no rel=up"},
	ruleIndexThere:  {"G-11 RL-3 RD-3 CH-2 CD-2 AR-5", "", Error, "rel=index leads to what is there"},
	ruleIndex:       {"G-11 RL-3 RD-3 CH-2 CD-2 AR-5", "", Error, "rel=index leads to a sitemapindex"},
	ruleIndexSame:   {"G-3", "core 7", Error, "rel=index leads to an index of the same capability"},
	ruleIndexListed: {"RI-4 CX-1 RD-6 CD-7 AR-8 SD-7", "", Error, "an index lists the documents that name it"},
	rulePartThere:   {"RI-3 RI-4 RD-6 CX-4 CD-7 AR-8", "", Error, "the parts of an index are there"},
	rulePartList:    {"RI-1 CX-2 G-1", "", Error, "the parts of an index are no indexes"},
	rulePartSame:    {"G-3", "core 7", Error, "the parts of an index have its capability"},
	rulePartBack:    {"G-11 RL-3 RD-3 CH-2 CD-2 AR-5", "", Warning, "a part links to its index"},

	ruleSetThere:          {"SD-3", "core 8", Error, "the Capability Lists of a Source Description are there"},
	ruleSet:               {"SD-3 SD-4", "core 8", Error, "a Source Description lists Capability Lists"},
	ruleSetListed:         {"SD-3", "core 8", Warning, "a Source Description lists each Capability List that links to it"},
	ruleSetLastMod:        {"SD-6 G-15", "core 8", Warning, "lastmod in a Source Description is what is served"},
	ruleCapabilityThere:   {"CL-4", "core 9", Error, "the documents of a Capability List are there"},
	ruleCapability:        {"CL-4 G-3", "core 9", Error, "an entry of a Capability List has its document's capability"},
	ruleCapabilityUp:      {"G-11 CL-7", "core 6.2", Error, "a document links to the Capability List that lists it"},
	ruleCapabilityLastMod: {"CL-5 G-15", "core 9", Warning, "lastmod in a Capability List is what is served"},
	ruleListed:            {"CL-4 CN-4 AR-1", "core 9", Warning, "a Capability List lists the documents that link to it"},
	ruleResourceOnce:      {"RL-4 RI-4", "", Warning, "a resource is in one part of a Resource List Index"},
	ruleSameSet:           {"G-25", "core 9", Error, "the Resource List and the Resource Dump have the same resources"},
	ruleChangesTold:       {"G-25 CN-2 CH-4", "core 9", Error, "changes of notifications and Change Dumps are in the Change List"},
	ruleChangesPacked:     {"CM-2 G-25", "core 13.2", Error, "a Change Dump has all changes of its interval"},
	ruleSnapshot:          {"G-8 RI-4 G-25", "core 7", Error, "a Resource List and a Resource Dump include all changes up to their at"},
	ruleLastMod:           {"G-15 AR-8 RD-4", "", Warning, "lastmod of a part, a package or an archived document is what is served"},

	ruleFuture:            {"G-8 G-9 G-16", "core 7", Error, "no time of a document, or of a change in it, is in the future"},
	ruleEntryTimes:        {"RI-3 CX-4 G-7", "", Error, "an index says the times of its parts"},
	ruleClosed:            {"CX-4 G-9 DS-10", "", Error, "an index has until for each closed part"},
	ruleOpen:              {"CX-4 G-9 DS-10", "", Error, "an index has no until for an open part"},
	ruleClosedChanged:     {"CH-7 G-9", "", Error, "a closed document does not change"},
	ruleSnapshotAt:        {"RI-1 G-8", "", Error, "the snapshot of an index begins with its first part"},
	ruleSnapshotCompleted: {"RI-1 G-8", "", Error, "the snapshot of an index ends with its last part"},
	ruleIndexFrom:         {"CX-2 G-9", "", Error, "the interval of an index begins with its first part"},
	ruleIndexUntil:        {"CX-2 G-9", "", Error, "the interval of an index ends with its last part"},
	ruleChainOrder:        {"CX-1 CD-7 AR-7", "", Error, "parts are in forward chronological order"},
	ruleChainOpen:         {"CX-1 CX-4", "", Note, "only the last part is open"},
	ruleChainOverlap:      {"CX-1 G-9", "", Note, "parts do not overlap"},
	ruleChainGap:          {"CX-1 G-9", "", Warning, "there is no gap between parts"},

	rulePackageThere:    {"RD-4 CD-4", "", Error, "the packages of a dump are there"},
	rulePackageSafe:     {"RD-1 RM-1 CM-1", "", Error, "a package is a ZIP file that is whole and safe to unpack"},
	rulePackageZIP:      {"RD-1", "", Warning, "packages are ZIP files"},
	ruleOneFormat:       {"RD-1 CD-7", "", Warning, "the packages of a dump are of one format"},
	rulePackageLength:   {"RD-4 CD-4 G-19", "", Error, "a package has the length that is told"},
	rulePackageHash:     {"RD-4 CD-4 G-21", "", Error, "a package has the hash that is told"},
	rulePackageType:     {"RD-4 CD-4 G-20", "", Warning, "a package has the type that is told"},
	rulePackageTimes:    {"RD-4 CD-4 G-8 G-9", "", Error, "a package has the times that are told"},
	rulePackageOrder:    {"CD-3", "", Warning, "the packages of a Change Dump are in forward chronological order"},
	ruleManifestThere:   {"RM-1 CM-1", "", Error, "a package has manifest.xml at its top level"},
	ruleManifestIs:      {"RM-2 CM-2 G-3", "", Error, "the manifest has the capability of its dump"},
	ruleManifestUp:      {"RM-3 CM-3", "", Error, "the manifest links to the Capability List of its dump"},
	rulePathThere:       {"RM-4 CM-5 CD-6 LN-4", "", Error, "each path of a manifest is in the package"},
	ruleBitstreamLength: {"RM-4 CM-5 G-19", "", Error, "a bitstream has the length that is told"},
	ruleBitstreamHash:   {"RM-4 CM-5 G-21", "", Error, "a bitstream has the hash that is told"},
	ruleUnlisted:        {"RM-4 CM-2 CD-6", "", Error, "the manifest lists each bitstream of the package"},
	ruleContentsThere:   {"RD-5 CD-5", "", Error, "rel=contents leads to what is there"},
	ruleContentsIs:      {"RD-5 CD-5", "", Error, "rel=contents leads to a manifest"},
	ruleContents:        {"RD-5 CD-5", "", Error, "the copy of a manifest is the one in the package"},

	ruleContentsAttributes: {"RD-5 CD-5 G-19 G-20 G-21", "core 7", Warning, "rel=contents says the type, length and hash of what is served"},

	ruleArchivesThere: {"AR-2", "archives 2.2", Error, "rel=archives leads to what is there"},
	ruleArchives:      {"AR-2", "archives 2.2", Error, "rel=archives leads to the archive of the same capability"},
	ruleArchivedThere: {"AR-6", "", Error, "archived documents are there"},
	ruleArchived:      {"AR-6 AR-3", "", Error, "archived documents have the archive's capability"},
	ruleArchivedTimes: {"AR-6", "", Error, "an archive says the times of its documents"},
	ruleArchiveEnd:    {"AR-7", "", Warning, "there is no gap between archive and live documents"},

	ruleTopicThere:    {"CN-27 CN-1", "CN 5", Error, "the topic of a Capability List is there"},
	ruleTopicAnswers:  {"CN-21", "CN 4.1", Error, "a topic answers GET and HEAD by 200"},
	ruleTopicType:     {"CN-21 CN-22", "CN 4.1", Error, "a topic is served as application/xml"},
	ruleTopicSelf:     {"CN-21 P1 P2", "CN 4.1", Error, "a topic has a Link with rel=self"},
	ruleSelfIsTopic:   {"CN-21 P1", "CN 4.1", Error, "rel=self is the topic"},
	ruleOneSelf:       {"P3 P5", "WebSub 4", Warning, "a topic has exactly one rel=self"},
	ruleOtherSelf:     {"P1 P2", "WebSub 4", Error, "a topic that has something else than ResourceSync names itself with rel=self"},
	ruleTopicHub:      {"CN-21 P1 P2 CN-20", "CN 4.1", Error, "a topic has a Link with rel=hub"},
	ruleTopicEmpty:    {"CN-24", "CN 4.1", Warning, "a topic without content has Content-Length: 0"},
	ruleOwnChannel:    {"CN-3", "CN 2", Error, "a channel has change notifications only"},
	ruleOwnSet:        {"CN-1 CL-7", "CN 2", Error, "a channel belongs to one Capability List"},
	ruleChannelListed: {"CN-27 CN-4", "CN 5", Error, "a Capability List advertises the channel that links to it"},
	ruleSameHub:       {"CN-27 DI-5", "CN 5", Error, "Capability List and topic name the same hub"},
	ruleHubAnswers:    {"CN-20 H10", "WebSub 5", Error, "the hub answers"},
	ruleHubThere:      {"CN-20 H10", "WebSub 5", Warning, "the hub is at its address"},

	ruleResourceThere:    {"RL-4", "core 10.1", Error, "listed resources are there"},
	ruleResourceLength:   {"G-19 G-8", "core 7", Error, "a resource has the length that is told"},
	ruleResourceHash:     {"G-21 G-8", "core 7", Error, "a resource has the hash that is told"},
	ruleResourceType:     {"G-20", "core 7", Warning, "a resource has the type that is told"},
	ruleResourceEncoding: {"G-18", "core 7", Warning, "a resource has the encoding that is told"},
	ruleResourceLastMod:  {"G-15", "core 7", Warning, "a resource has the lastmod that is told"},
	ruleDuplicate:        {"LN-2", "core 14.2", Error, "a duplicate is the same as the resource"},
	ruleAlternate:        {"LN-3", "core 14.3", Warning, "an alternate is there"},
	ruleCanonical:        {"LN-3", "core 14.3", Warning, "a canonical resource is there"},
	rulePatch:            {"LN-4", "core 14.4", Error, "a patch is there, and is what is told"},
	ruleDescribedBy:      {"LN-5", "core 14.5", Warning, "a description is there"},
	ruleMemento:          {"LN-6", "core 14.6", Warning, "a memento, a timegate and a timemap are there"},
	ruleCollection:       {"LN-7", "core 14.7", Warning, "a collection is there"},
	ruleVia:              {"LN-8", "core 14.8", Warning, "the original is there"},
}
