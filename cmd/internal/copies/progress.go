package copies

import (
	"fmt"
	"io"

	"carillon/cmd/internal/program"
	"carillon/transfer"
)

// reporter prints the progress of a command.
type reporter struct {
	*program.Teller
	what string // "exporting"
	size int64  // of the stream in bytes; 0: not known
	read int64  // bytes, by reading
}

// reporter makes a reporter that begins now.
func (call *Call) reporter(what string, size int64) *reporter {
	return &reporter{Teller: program.NewTeller(call.Stderr, call.Engine.Logger), what: what, size: size}
}

// progress is called after every record.
func (r *reporter) progress(p transfer.Progress) {
	if !r.Due() {
		return
	}
	rate := r.PerSecond(p.Total())
	r.Tell(fmt.Sprintf("%s, subscriptions %d, notifications %d, %d records/s",
		r.volume(p.Bytes), p.Subscriptions, p.Notifications, rate),
		r.what, "records", p.Counts.String(), "bytes", p.Bytes, "of_bytes", r.size, "records_per_second", rate)
}

// reading prints the bytes read from a stream that has no records to count.
func (r *reporter) reading(from io.Reader) io.Reader { return &counted{from, r} }

type counted struct {
	io.Reader
	to *reporter
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.to.read += int64(n); c.to.Due() {
		c.to.Tell(c.to.volume(c.to.read), c.to.what, "bytes", c.to.read, "of_bytes", c.to.size)
	}
	return n, err
}

// volume begins a line.
func (r *reporter) volume(bytes int64) string {
	const mega = 1e6
	if r.size == 0 {
		return fmt.Sprintf("%s: %.1f MB", r.what, float64(bytes)/mega)
	}
	return fmt.Sprintf("%s: %3d%% of %.1f MB", r.what, 100*bytes/r.size, float64(r.size)/mega)
}
