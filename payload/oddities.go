package payload

// oddity is a kind of what an Inspector notes.
type oddity int

const (
	// Of the document.
	oddLate oddity = iota
	oddMDs
	oddCapability
	oddOtherCapability
	oddUnknownCapability
	oddRoot
	oddUp
	oddUps
	oddHeadLink
	oddHeadRelation
	oddFrom
	oddUntil
	oddAt
	oddBackward
	oddHeadTimes
	oddHeadDatetime
	oddHeadOffset // behind its datetime, as all of this kind
	oddDescribedBy

	// Of elements and attributes.
	oddPrefix
	oddStray
	oddElement
	oddAttrs
	oddRepeated
	oddMDFirst
	oddMisnamed
	oddLocs
	oddFreq

	// Of any entry.
	oddLoc
	oddLocURI
	oddResourceTwice
	oddLastMod
	oddLastModOffset
	oddHash
	oddHashAlgorithm
	oddLength
	oddType
	oddEncoding
	oddTimes
	oddChangeElsewhere
	oddCapabilityElsewhere

	// Of changes and bitstreams.
	oddChange
	oddNoDatetime
	oddDatetime
	oddDatetimeOffset
	oddOrder
	oddBefore
	oddAfter
	oddPathElsewhere
	oddNoPath
	oddPath
	oddPathForm
	oddDeletedPath
	oddNoType

	// Of parts of an index, packages of a dump, documents of an archive.
	oddPartDatetime
	oddPartOffset
	oddPartFrom
	oddPartAt
	oddPartBackward
	oddPartOpen
	oddPartOrder
	oddOverlap
	oddGap
	oddPackage
	oddFormat
	oddZIP

	// Of capabilities.
	oddListed
	oddUnlisted
	oddListedUnknown
	oddTwice
	oddHub
	oddListedDescribedBy

	// Of links.
	oddLink
	oddRelation
	oddLinkHashAlgorithm
	oddPatch
	oddPatchType
	oddPatchPath
	oddLinkPath
	oddTimegate
	oddMemento
	oddAlternate
	oddDuplicate
	oddVias
	oddContents

	oddCount
)

// ruling is how grave an oddity is and what to do about it.
type ruling struct {
	level  Level
	absent bool // something recommended is missing
	mend   string
}

// rulings has one for each oddity.
var rulings = [oddCount]ruling{
	oddLate:              {level: Note, mend: "write rs:md before the first entry, so that a Destination knows what it reads"},
	oddMDs:               {level: Error, mend: "keep one rs:md below the root element"},
	oddCapability:        {level: Error, mend: "add <rs:md capability=\"…\"/> below the root element"},
	oddOtherCapability:   {level: Error, mend: "correct the capability, or the link that leads to this document"},
	oddUnknownCapability: {level: Error, mend: "use a capability that the standards define"},
	oddRoot:              {level: Error, mend: "use urlset as the root element"},
	oddUp:                {level: Error, mend: "add an rs:ln with rel=\"up\" below the root element"},
	oddUps:               {level: Note, mend: "keep one rs:ln with rel=\"up\""},
	oddHeadLink:          {level: Error, mend: "correct the attribute of rs:ln"},
	oddHeadRelation:      {level: Note, mend: "remove the rs:ln"},
	oddFrom:              {level: Error, mend: "add from: all changes since then are in the document"},
	oddUntil:             {level: Error, mend: "add until: all changes up to then are in the document"},
	oddAt:                {level: Error, mend: "add at: the time when the snapshot began"},
	oddBackward:          {level: Error, mend: "correct the two times: the end must not be before the beginning"},
	oddHeadTimes:         {level: Error, mend: "remove the attributes: snapshots have at and completed, changes have from and until"},
	oddHeadDatetime:      {level: Error, mend: "write the time as YYYY-MM-DDThh:mm:ssZ"},
	oddHeadOffset:        {level: Warning, mend: "write the time as YYYY-MM-DDThh:mm:ssZ, in UTC"},
	oddDescribedBy:       {level: Warning, absent: true, mend: "add an rs:ln with rel=\"describedby\" below the root element"},

	oddPrefix:   {level: Error, mend: "write the attributes of rs:md and rs:ln without a prefix"},
	oddStray:    {level: Error, mend: "remove the attribute, or give it a prefix of your own namespace"},
	oddElement:  {level: Note, mend: "correct the element's name, or put it in a namespace of your own"},
	oddAttrs:    {level: Error, mend: "remove the attributes, and say the same in rs:md"},
	oddRepeated: {level: Error, mend: "put all attributes into one rs:md"},
	oddMDFirst:  {level: Note, mend: "write loc first"},
	oddMisnamed: {level: Error, mend: "write url elements below urlset, and sitemap elements below sitemapindex"},
	oddLocs:     {level: Error, mend: "write an entry for each loc"},
	oddFreq:     {level: Error, mend: "use always, hourly, daily, weekly, monthly, yearly or never"},

	oddLoc:                 {level: Error, mend: "add loc with the URI"},
	oddLocURI:              {level: Error, mend: "write the whole URI, percent-encoded, with its scheme"},
	oddResourceTwice:       {level: Warning, mend: "keep one entry for each resource, with its latest state"},
	oddLastMod:             {level: Error, mend: "write lastmod as YYYY-MM-DDThh:mm:ssZ"},
	oddLastModOffset:       {level: Warning, mend: "write lastmod as YYYY-MM-DDThh:mm:ssZ, in UTC"},
	oddHash:                {level: Error, mend: "write hash as algorithm:hexdigest, several separated by spaces"},
	oddHashAlgorithm:       {level: Note, mend: "add a digest of md5, sha-1 or sha-256, which Destinations know"},
	oddLength:              {level: Error, mend: "write length in bytes, in decimal digits"},
	oddType:                {level: Error, mend: "write type as a media type, such as text/html"},
	oddEncoding:            {level: Error, mend: "write encoding as the Content-Encoding of the response, such as gzip"},
	oddTimes:               {level: Error, mend: "remove the attributes from the entry"},
	oddChangeElsewhere:     {level: Error, mend: "remove change and datetime: they belong to entries of changes"},
	oddCapabilityElsewhere: {level: Note, mend: "remove capability: it belongs to entries of Capability Lists and Source Descriptions"},

	oddChange:         {level: Error, mend: "write change as created, updated or deleted"},
	oddNoDatetime:     {level: Note, mend: "add datetime, the time of the change, so that Destinations know which changes are new"},
	oddDatetime:       {level: Error, mend: "write datetime as YYYY-MM-DDThh:mm:ssZ"},
	oddDatetimeOffset: {level: Warning, mend: "write datetime as YYYY-MM-DDThh:mm:ssZ, in UTC"},
	oddOrder:          {level: Error, mend: "sort the entries by time, the oldest first"},
	oddBefore:         {level: Error, mend: "correct from or datetime: from <= datetime must hold"},
	oddAfter:          {level: Error, mend: "correct until or datetime: datetime <= until must hold"},
	oddPathElsewhere:  {level: Error, mend: "remove path: it belongs to entries of dump manifests"},
	oddNoPath:         {level: Error, mend: "add path, the place of the bitstream in the package"},
	oddPath:           {level: Error, mend: "write path from the root of the package, with a leading slash, as in /folder/file"},
	oddPathForm:       {level: Note, mend: "use names and single slashes only in path"},
	oddDeletedPath:    {level: Note, mend: "remove path: the package holds nothing of a deleted resource"},
	oddNoType:         {level: Warning, absent: true, mend: "add type, the media type of the bitstream"},

	oddPartDatetime: {level: Error, mend: "write the time as YYYY-MM-DDThh:mm:ssZ"},
	oddPartOffset:   {level: Warning, mend: "write the time as YYYY-MM-DDThh:mm:ssZ, in UTC"},
	oddPartFrom:     {level: Warning, mend: "add from and, unless the part is open, until"},
	oddPartAt:       {level: Note, mend: "add at, so that a Destination can choose by time"},
	oddPartBackward: {level: Error, mend: "correct the two times: the end must not be before the beginning"},
	oddPartOpen:     {level: Note, mend: "add until to all parts but the last"},
	oddPartOrder:    {level: Error, mend: "sort the entries by time, the oldest first"},
	oddOverlap:      {level: Note, mend: "begin each part where the one before ends"},
	oddGap:          {level: Warning, mend: "list what covers the gap, or begin the part where the one before ends"},
	oddPackage:      {level: Warning, absent: true, mend: "add type and length of the package to rs:md"},
	oddFormat:       {level: Warning, mend: "use one format for all packages"},
	oddZIP:          {level: Warning, mend: "use ZIP packages (application/zip)"},

	oddListed:            {level: Error, mend: "add rs:md with the capability of the listed document"},
	oddUnlisted:          {level: Note, mend: "add <rs:md capability=\"capabilitylist\"/> to the entry"},
	oddListedUnknown:     {level: Note, mend: "use a capability that the standards define"},
	oddTwice:             {level: Error, mend: "keep one entry for each capability, and group several documents in an index"},
	oddHub:               {level: Error, mend: "add an rs:ln with rel=\"hub\" to the entry of the channel"},
	oddListedDescribedBy: {level: Warning, absent: true, mend: "add an rs:ln with rel=\"describedby\" to the entry"},

	oddLink:              {level: Error, mend: "correct the attribute of rs:ln"},
	oddRelation:          {level: Note, mend: "use a relation that IANA has registered, or a URI"},
	oddLinkHashAlgorithm: {level: Note, mend: "add a digest of md5, sha-1 or sha-256, which Destinations know"},
	oddPatch:             {level: Error, mend: "remove the patch: it belongs to an entry of a change"},
	oddPatchType:         {level: Error, mend: "add type to the patch, so that a Destination knows how to apply it"},
	oddPatchPath:         {level: Error, mend: "add path to the patch, its place in the package"},
	oddLinkPath:          {level: Error, mend: "remove path from the link: it belongs to dump manifests"},
	oddTimegate:          {level: Warning, mend: "keep only rel and href of a timegate"},
	oddMemento:           {level: Note, mend: "add modified, the time of that version"},
	oddAlternate:         {level: Warning, absent: true, mend: "add type, the media type of the alternate"},
	oddDuplicate:         {level: Warning, mend: "remove hash, length, type and encoding from the duplicate: they are those of rs:md"},
	oddVias:              {level: Warning, mend: "keep the link to the original Source only"},
	oddContents:          {level: Note, mend: "remove the link, or move it to the entry of a package"},
}
