package machine

// NearestDirectory is nearestDirectory.
var NearestDirectory = nearestDirectory

// For tests of the collector's percentage.
const GarbageRoom = garbageRoom

var (
	CollectorPercent = collectorPercent
	LiveHeap         = liveHeap
)
