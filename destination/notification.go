package destination

import (
	"time"

	"carillon/payload"
)

// Notification is one delivery that was accepted.
type Notification struct {
	// ID is the X-Hub-Notification-Id; for a hub that sends none, a digest of
	// the content, or nothing for content that may well come twice.
	ID string
	// Topic is the topic subscribed to. It is known by the callback: Link
	// headers do not tell (WebSub §7).
	Topic       string
	ContentType string
	Size        int // of the body, bytes
	Body        []byte
	Received    time.Time
	// ChangeNotification tells that the body is a well-formed ResourceSync
	// notification; what follows is empty otherwise.
	ChangeNotification bool
	// Broken reports that the body is a ResourceSync notification that cannot be read to its end.
	Broken      bool
	From, Until string // as told
	Changes     []payload.Entry

	digest string // of a ResourceSync notification that tells when it is of: it comes once
}
