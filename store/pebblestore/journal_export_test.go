package pebblestore

import (
	"context"

	"carillon/notifier"
)

// JournalBodies counts the pieces of notifications in the journal; -1 if it cannot.
func JournalBodies(j *Journal) int {
	n := 0
	err := j.engine.scan(context.Background(), []byte{kindJournalBody}, func(_, _ []byte) bool {
		n++
		return true
	})
	if err != nil {
		return -1
	}
	return n
}

// LeaveJournalBody writes the bytes of a notification that has no record.
func LeaveJournalBody(j *Journal, n notifier.Notification, body []byte) {
	if err := j.putBody(context.Background(), n, body); err != nil {
		panic(err)
	}
}
