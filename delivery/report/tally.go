package report

import "carillon/delivery"

// Fate is what became of a notification for one subscription that was to get it.
type Fate uint8

// The fates.
const (
	FateDelivered Fate = iota // also one that was replayed
	FatePending               // still to come, and the last attempt did not fail
	FateFailing               // still to come, and the last attempt failed
	FateGivenUp               // the retry limits were reached (WebSub §7)
	FateTrimmed               // the log no longer had it
)

var fateNames = [...]string{"delivered", "pending", "failing", "given_up", "trimmed"}

// String returns the fate's name.
func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "unknown"
}

// Tally says what became of a notification, over the subscriptions that there are now and
// that began before it. Subscribers = Delivered + Pending + GivenUp + Trimmed.
type Tally struct {
	Seq         delivery.Seq
	Subscribers int
	Delivered   int
	Pending     int
	Failing     int // of those pending
	GivenUp     int
	Trimmed     int
}
