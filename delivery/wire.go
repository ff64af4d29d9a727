package delivery

import "sync"

// wire is what the deliveries of one notification have in common, made by the
// HTTPSender at its first delivery and held for as long as the notification is.
type wire struct {
	once sync.Once
}
