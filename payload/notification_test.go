package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"carillon/payload"
)

// newWriter begins the museum's notification.
func newWriter(t testing.TB, w io.Writer) *payload.NotificationWriter {
	t.Helper()
	n, err := payload.NewNotificationWriter(w, museum, museumUp)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func entryAt(at time.Time) *payload.Entry {
	return &payload.Entry{Loc: "http://h/", Change: payload.Created, Datetime: at}
}

// A refused entry is not in the document, and what follows it is.
func TestWriteRefuses(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		entry *payload.Entry
		want  error
	}{
		"older":        {entryAt(start.Add(499 * ms)), payload.ErrOrder},
		"before from":  {entryAt(start.Add(-time.Microsecond)), payload.ErrOutside},
		"at until":     {entryAt(museum.Until), payload.ErrOutside},
		"after until":  {entryAt(museum.Until.Add(ms)), payload.ErrOutside},
		"no datetime":  {entryAt(time.Time{}), &payload.FieldError{}},
		"year 10000":   {entryAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), &payload.FieldError{}},
		"broken field": {&payload.Entry{Loc: "h", Change: payload.Created, Datetime: start.Add(600 * ms)}, &payload.FieldError{}},
	} {
		t.Run(name, func(t *testing.T) {
			var doc bytes.Buffer
			n := newWriter(t, &doc)
			first, last := entryAt(start.Add(500*ms)), entryAt(start.Add(500*ms))
			last.Change = payload.Deleted
			if err := n.Write(first); err != nil {
				t.Fatal(err)
			}
			err := n.Write(tt.entry)
			var fe *payload.FieldError
			if wantField := errors.As(tt.want, &fe); wantField && !errors.As(err, &fe) || !wantField && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err := n.Write(last); err != nil { // the same datetime is not out of order
				t.Fatal(err)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			_, entries, err := readAll(doc.String(), payload.Limits{})
			if err != nil || len(entries) != 2 || entries[0].Change != payload.Created || entries[1].Change != payload.Deleted {
				t.Errorf("got %v, %v", entries, err)
			}
		})
	}
}

// From and until are written with microseconds, and judged by what is written.
func TestFinerThanMicroseconds(t *testing.T) {
	iv := payload.Interval{From: start.Add(1500), Until: start.Add(3999)}
	var doc bytes.Buffer
	n, err := payload.NewNotificationWriter(&doc, iv, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Write(entryAt(start.Add(1000))); err != nil {
		t.Errorf("at from as written: %v", err)
	}
	if err := n.Write(entryAt(start.Add(3500))); !errors.Is(err, payload.ErrOutside) {
		t.Errorf("at until as written: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if want := `from="2026-03-01T09:00:00.000001Z" until="2026-03-01T09:00:00.000003Z"`; !strings.Contains(doc.String(), want) {
		t.Errorf("got\n%s", doc.String())
	}
}

func TestIntervalRefused(t *testing.T) {
	for name, iv := range map[string]payload.Interval{
		"none":        {},
		"no from":     {Until: start},
		"no until":    {From: start},
		"empty":       {From: start, Until: start},
		"too short":   {From: start, Until: start.Add(999)},
		"backward":    {From: start, Until: start.Add(-1)},
		"far future":  {From: start, Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"far history": {From: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), Until: start},
	} {
		if _, err := payload.NewNotificationWriter(io.Discard, iv, ""); !errors.Is(err, payload.ErrInterval) {
			t.Errorf("%s: got %v", name, err)
		}
		if got, err := payload.AppendNotificationHead([]byte("x"), iv, ""); err == nil || string(got) != "x" {
			t.Errorf("%s: head %q, %v", name, got, err)
		}
		if got := payload.NotificationOverhead(iv, ""); got != 0 {
			t.Errorf("%s: overhead %d", name, got)
		}
	}
	_, err := payload.NewNotificationWriter(io.Discard, museum, "/capabilitylist.xml")
	wantFieldError(t, err, "up")
}

func TestEmptyNotification(t *testing.T) {
	var doc bytes.Buffer
	n := newWriter(t, &doc)
	if err := n.Close(); !errors.Is(err, payload.ErrEmpty) || doc.Len() > 0 {
		t.Errorf("got %v and wrote %q", err, doc.String())
	}
}

func TestClosedWriter(t *testing.T) {
	n := newWriter(t, io.Discard)
	if err := errors.Join(n.Write(entryAt(start)), n.Close()); err != nil {
		t.Fatal(err)
	}
	if err := n.Write(entryAt(start)); !errors.Is(err, payload.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if err := n.Close(); !errors.Is(err, payload.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
}

func TestTroubleWithTheUnderlyingWriterIsFinal(t *testing.T) {
	n := newWriter(t, brokenPipe{})
	if err := n.Write(entryAt(start)); err != nil {
		t.Fatalf("a small document is gathered first: %v", err)
	}
	for range 2 {
		if err := n.Close(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Close: %v", err)
		}
	}
	if err := n.Write(entryAt(start)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write: %v", err)
	}
}

// A document holds 50,000 entries, and not one more.
func TestMaxEntries(t *testing.T) {
	var doc bytes.Buffer
	n := newWriter(t, &doc)
	for range payload.MaxEntries {
		if err := n.Write(entryAt(start)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Write(entryAt(start)); !errors.Is(err, payload.ErrTooManyEntries) {
		t.Errorf("got %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if sum, err := payload.ValidateNotification(&doc); err != nil || sum.Entries != payload.MaxEntries {
		t.Errorf("got %d entries, %v", sum.Entries, err)
	}
}

// A document never exceeds MaxBytes, and a smaller entry may still fill it up.
func TestMaxBytes(t *testing.T) {
	var size counter
	n := newWriter(t, &size)
	big := entryAt(start)
	for i := range 100 {
		big.Links = append(big.Links, payload.Link{Rel: "duplicate", Href: fmt.Sprintf("http://h/%d%s", i, strings.Repeat("a", 2000))})
	}
	var err error
	for err == nil {
		err = n.Write(big)
	}
	if !errors.Is(err, payload.ErrTooLarge) {
		t.Fatal(err)
	}
	small := entryAt(start)
	for err = nil; err == nil; {
		err = n.Write(small)
	}
	if !errors.Is(err, payload.ErrTooLarge) {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	one, err := payload.AppendEntry(nil, small)
	if err != nil {
		t.Fatal(err)
	}
	if int(size) > payload.MaxBytes || int(size)+len(one) <= payload.MaxBytes {
		t.Errorf("the document has %d bytes", size)
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
