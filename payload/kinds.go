package payload

import (
	"strings"
)

// Capabilities, as documents name their own and those that they list (core §7). An index
// has the capability of its parts. That of a channel is ChangeNotification.
const (
	CapDescription          = "description"           // core §8
	CapCapabilityList       = "capabilitylist"        // core §9
	CapResourceList         = "resourcelist"          // core §10
	CapResourceDump         = "resourcedump"          // core §11.1
	CapResourceDumpManifest = "resourcedump-manifest" // core §11.2
	CapChangeList           = "changelist"            // core §12
	CapChangeDump           = "changedump"            // core §13.1
	CapChangeDumpManifest   = "changedump-manifest"   // core §13.2

	CapResourceListArchive = "resourcelist-archive" // archives §3
	CapResourceDumpArchive = "resourcedump-archive" // archives §4
	CapChangeListArchive   = "changelist-archive"   // archives §5
	CapChangeDumpArchive   = "changedump-archive"   // archives §6
)

// Relations of the links of documents.
const (
	// RelUp leads from a capability's document to the Capability List, and from that to the
	// Source Description (core §6.2).
	RelUp = "up"
	// RelIndex leads from a part to its index (core §6.2).
	RelIndex = "index"
	// RelArchives leads from a capability's document to its archive (archives §2.2).
	RelArchives = "archives"
	// RelContents leads from a package to a copy of its manifest (core §11.1, §13.1).
	RelContents = "contents"
	// RelHub leads from a channel to its hub (CN §5).
	RelHub = "hub"
)

// Relations of the links of resources (core §14).
const (
	RelDuplicate   = "duplicate" // a copy elsewhere (core §14.2)
	RelAlternate   = "alternate" // a representation with its own address (core §14.3)
	RelCanonical   = "canonical" // the generic address (core §14.3)
	RelDescribedBy = "describedby"
	RelDescribes   = "describes"
	RelMemento     = "memento" // a version with its own address (core §14.6)
	RelTimegate    = "timegate"
	RelTimemap     = "timemap"
	RelCollection  = "collection"
	RelVia         = "via" // the resource at its origin (core §14.8)

	// RelPatch leads to the difference from the version before (core §14.4).
	RelPatch = "http://www.openarchives.org/rs/terms/patch"
)

// ofArchive and ofManifest end the capabilities of archives and manifests.
const (
	ofArchive  = "-archive"
	ofManifest = "-manifest"
)

// ArchiveOf returns the capability of the archive of documents with a capability.
func ArchiveOf(capability string) string { return capability + ofArchive }

// Archived returns the capability of the documents that an archive lists, and whether the
// capability is that of an archive; if not, it is returned as it is.
func Archived(capability string) (of string, is bool) {
	return strings.CutSuffix(capability, ofArchive)
}

// ManifestOf returns the capability of the manifests in the packages of a dump.
func ManifestOf(capability string) string { return capability + ofManifest }

// IsSnapshot reports whether documents with the capability state at and completed, and not from
// and until.
func IsSnapshot(capability string) bool { return kinds[capability].times == snapshot }

// ListsDocuments reports whether the entries of a document are other documents, or packages.
// They are in an index, whatever its capability.
func ListsDocuments(capability string, index bool) bool {
	l := kinds[capability].lists
	return index || l == packages || l == documents || l == capabilities
}

// kind is what the clauses say of the documents of one capability.
type kind struct {
	name   string // of the document
	clause string // where it is described
	index  string // where its index is described; empty where no index exists
	times  timesOf
	lists  listed
}

// timesOf is which times a document states as a whole (core §7, appendix A).
type timesOf int

const (
	noTimes  timesOf = iota
	interval         // from, until
	snapshot         // at, completed
)

// listed is what the entries of a document are.
type listed int

const (
	resources  listed = iota + 1
	changes           // of resources
	bitstreams        // of a package
	packages          // of a dump
	documents         // of an archive
	capabilities
)

// Clauses that are quoted in many places.
const (
	clauseCN      = "CN §3"
	clauseCore    = "core §7"
	clauseIndexes = "archives §3.1"
)

// kindOf returns the kind of a capability, or nil for an unknown one.
func kindOf(capability string) *kind {
	k, known := kinds[capability]
	if !known {
		return nil
	}
	return &k
}

var kinds = map[string]kind{
	CapDescription:          {"Source Description", "core §8", "core §8", noTimes, capabilities},
	CapCapabilityList:       {"Capability List", "core §9", "", noTimes, capabilities},
	CapResourceList:         {"Resource List", "core §10.1", "core §10.2", snapshot, resources},
	CapResourceDump:         {"Resource Dump", "core §11.1", "core §11.1", snapshot, packages},
	CapResourceDumpManifest: {"Resource Dump Manifest", "core §11.2", "", snapshot, bitstreams},
	CapChangeList:           {"Change List", "core §12.1", "core §12.2", interval, changes},
	CapChangeDump:           {"Change Dump", "core §13.1", "core §13.1", interval, packages},
	CapChangeDumpManifest:   {"Change Dump Manifest", "core §13.2", "", interval, bitstreams},
	CapResourceListArchive: {
		"Resource List Archive", "archives §3", clauseIndexes, noTimes,
		documents,
	},
	CapResourceDumpArchive: {
		"Resource Dump Archive", "archives §4", clauseIndexes, noTimes,
		documents,
	},
	CapChangeListArchive: {
		"Change List Archive", "archives §5", clauseIndexes, noTimes,
		documents,
	},
	CapChangeDumpArchive: {
		"Change Dump Archive", "archives §6", clauseIndexes, noTimes,
		documents,
	},
	ChangeNotification: {"change notification", clauseCN, "", interval, changes},
}
