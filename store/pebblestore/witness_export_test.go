package pebblestore

// NewestLog is the newest write-ahead log among the names.
func NewestLog(names ...string) string { return last(names, "", ".log") }

// NewestManifest is the newest marker of a manifest among the names.
func NewestManifest(names ...string) string { return last(names, manifestMarker, "") }
