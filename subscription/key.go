package subscription

import "carillon/topic"

// Key is topic.Key.
func Key(raw string) string { return topic.Key(raw) }
