package destination

import (
	"time"

	"carillon/payload"
)

// Notification is one accepted delivery.
type Notification struct {
	// ID is the X-Hub-Notification-Id. Without one it is a digest of a change notification, and
	// empty for other content, which may repeat.
	ID string
	// Topic is the topic of the subscription. The callback identifies it, not the Link headers
	// (WebSub §7).
	Topic       string
	ContentType string
	Size        int // of the body, bytes
	Body        []byte
	Received    time.Time
	// ChangeNotification reports that the body is a well-formed ResourceSync notification.
	// Otherwise the fields after Broken are empty.
	ChangeNotification bool
	// Broken reports that the body begins as a ResourceSync notification, but cannot be read to its
	// end.
	Broken      bool
	From, Until string // verbatim
	Changes     []payload.Entry

	digest string // of a dated ResourceSync notification, which is unique
}
