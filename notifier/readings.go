package notifier

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"carillon/internal/readings"
	"carillon/internal/standing"
)

// Limits of the documents that are sent at a time. Each holds a piece of the
// document and, where it is packed, most of a megabyte for that.
const (
	// maxReadings is how many documents are being sent: 503 beyond that.
	maxReadings = 64
	// clientReadings is how many of them one client has: 503 beyond that. Clients of this
	// machine, such as a proxy, have no such bound.
	clientReadings = 16
	// slowReading is how long a document is sent undisturbed: one that takes longer is
	// cut off where another client would be refused.
	slowReading = 30 * time.Second
	// defaultFiles is how many files are being sent at a time, and filesShare the part of
	// them that one client has, as above.
	defaultFiles = 256
	filesShare   = 4
)

var errManyReadings = &httpError{
	status: http.StatusServiceUnavailable, header: http.Header{"Retry-After": {"5"}},
	text: "Too many documents are being read at the moment. Try again.",
}

func newReadings(most, perClient int) *readings.Readings {
	return readings.New(readings.Config{
		All: most, PerClient: perClient, Undisturbed: slowReading,
		Full: errManyReadings, ClientFull: errManyReadings,
	})
}

// clientOf returns the client that a connection counts for, as standing.Network names it. It
// is empty for one of this machine. All connections without an address count as one client.
func clientOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "unknown"
	case addr.Unmap().IsLoopback():
		return ""
	}
	return standing.Network(addr)
}
