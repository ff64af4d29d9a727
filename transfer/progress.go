package transfer

import "fmt"

// Counts are how many records there are of each kind.
type Counts struct {
	Topics        int `json:"topics"`
	Notifications int `json:"notifications"`
	Requests      int `json:"requests"`
	Pings         int `json:"pings"`
	Subscriptions int `json:"subscriptions"`
	Gaps          int `json:"gaps"`
	Sources       int `json:"sources"`
}

// Total is the number of all records.
func (c Counts) Total() int {
	return c.Topics + c.Notifications + c.Requests + c.Pings + c.Subscriptions + c.Gaps + c.Sources
}

// String names every count.
func (c Counts) String() string {
	return fmt.Sprintf("%d topics, %d notifications, %d requests, %d pings, %d subscriptions, %d gaps, %d Sources",
		c.Topics, c.Notifications, c.Requests, c.Pings, c.Subscriptions, c.Gaps, c.Sources)
}

// Progress is how far an export or an import has come.
type Progress struct {
	Counts
	// Bytes are those of the stream.
	Bytes int64
}
