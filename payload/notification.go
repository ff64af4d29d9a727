package payload

import (
	"errors"
	"fmt"
	"io"
)

// ChangeNotification is the capability of a change notification, and of its
// channel in a Capability List (CN §3, §5).
const ChangeNotification = "change-notification"

// notificationSuffix ends the capability of every kind of notification.
const notificationSuffix = "-notification"

// Errors that say why a NotificationWriter refuses an entry, or its Close.
var (
	// ErrOrder: the entry's datetime is before the one written last (CN §3:
	// forward chronological order).
	ErrOrder = errors.New("the entry is older than the one before it")
	// ErrOutside: the entry's datetime is not in the interval (from <= datetime < until).
	ErrOutside = errors.New("the entry's datetime is outside the notification's interval")
	// ErrTooManyEntries: the document has, or would have, more entries than its limit.
	ErrTooManyEntries = errors.New("too many entries")
	// ErrEmpty: a notification without entries is not sent.
	ErrEmpty = errors.New("the notification has no entries")
	// ErrClosed: the writer was closed.
	ErrClosed = errors.New("the notification is complete")
)

// flushSize is how much a NotificationWriter gathers before it writes.
const flushSize = 64 << 10

// NotificationWriter writes one change notification, entry by entry. It is for
// one goroutine.
type NotificationWriter struct {
	w           io.Writer
	from, until int64 // microseconds of Unix, as all that is written
	last        int64 // the datetime of the entry before, from before the first entry
	buf         []byte
	size        int // bytes of the document so far, with its tail
	entries     int
	err         error // from w, or ErrClosed
}

// NewNotificationWriter begins a change notification for the interval. up is the
// URI of the Capability List, empty for none. The errors are those of
// AppendNotificationHead. Nothing is written before Write or Close.
func NewNotificationWriter(w io.Writer, iv Interval, up string) (*NotificationWriter, error) {
	head, err := AppendNotificationHead(nil, iv, up)
	if err != nil {
		return nil, err
	}
	from := iv.From.UnixMicro()
	return &NotificationWriter{
		w: w, from: from, until: iv.Until.UnixMicro(), last: from,
		buf: head, size: len(head) + len(documentTail),
	}, nil
}

// Write adds an entry. A refused entry leaves nothing in the document, and the
// next may follow: the error is a *FieldError, ErrOrder, ErrOutside,
// ErrTooManyEntries, or ErrTooLarge for an entry that would bring the document
// over MaxBytes. Trouble with the underlying writer is final.
func (n *NotificationWriter) Write(e *Entry) error {
	if n.err != nil {
		return n.err
	}
	at := e.Datetime.UnixMicro() // cut off as it is written; beyond int64 AppendEntry refuses it
	buf, err := AppendEntry(n.buf, e)
	added := len(buf) - len(n.buf)
	switch {
	case err != nil:
		return err
	case at < n.from || at >= n.until:
		return fmt.Errorf("%w: %s", ErrOutside, FormatDatetime(e.Datetime))
	case at < n.last:
		return fmt.Errorf("%w: %s", ErrOrder, FormatDatetime(e.Datetime))
	case n.entries == MaxEntries:
		return fmt.Errorf("%w: at most %d", ErrTooManyEntries, MaxEntries)
	case n.size+added > MaxBytes:
		return fmt.Errorf("%w: at most %d bytes", ErrTooLarge, MaxBytes)
	}
	n.buf, n.last = buf, at
	n.size += added
	n.entries++
	if len(n.buf) >= flushSize {
		return n.flush()
	}
	return nil
}

// Close completes the document. A notification without entries is ErrEmpty, and
// nothing of it was written. The underlying writer is not closed.
func (n *NotificationWriter) Close() error {
	switch {
	case n.err != nil:
		return n.err
	case n.entries == 0:
		return ErrEmpty
	}
	n.buf = AppendNotificationTail(n.buf)
	if err := n.flush(); err != nil {
		return err
	}
	n.err = ErrClosed
	return nil
}

func (n *NotificationWriter) flush() error {
	if _, err := n.w.Write(n.buf); err != nil {
		n.err = fmt.Errorf("writing a change notification: %w", err)
		return n.err
	}
	n.buf = n.buf[:0]
	return nil
}
