package notifier

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"carillon/payload"
)

// Imported is what an import has done, or has done so far.
type Imported struct {
	// Resources are those of the snapshot that were read.
	Resources int
	// Events is whether the differences to what the set had become events; they are
	// Differences then.
	Events bool
	// Pending is whether some of them will only be made after the next start.
	Pending bool
	Differences
}

// Importer imports snapshots of sets: NDJSON, a resource on each line. A snapshot is taken
// whole or refused whole.
type Importer struct {
	Store ResourceStore
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// AllowEmpty takes a snapshot without resources also into a set that has some: all of them are
	// deleted then. Default: it is refused, as what made it has failed more likely.
	AllowEmpty bool
	// Progress, if it is there, is called now and then.
	Progress func(Imported)
}

// Read reads a snapshot to its end and seals it. Where the set's resources were not known, or no
// reader can have relied on them, the snapshot counts, and the import is done: it returns nil. Else
// the caller Applies the result, and must Close it: from here on it will be carried out. The error is
// an *InputError with the line for a fault of the snapshot.
func (m Importer) Read(ctx context.Context, set string, r io.Reader) (ResourceImport, Imported, error) {
	var done Imported
	i, err := m.Store.BeginImport(ctx, set)
	if err != nil {
		return nil, done, err
	}
	pending := false
	if err = m.put(ctx, i, r, &done); err == nil && done.Resources == 0 && !m.AllowEmpty {
		err = m.refuseEmpty(ctx, set)
	}
	if err == nil {
		pending, err = i.Seal(ctx)
	}
	if err != nil || !pending {
		return nil, done, errors.Join(err, i.Close())
	}
	done.Events = true
	return i, done, nil
}

// refuseEmpty refuses an empty snapshot of a set that is known to have resources.
func (m Importer) refuseEmpty(ctx context.Context, set string) error {
	_, all, err := m.Store.Resources(ctx, set)
	if errors.Is(err, ErrNotWhole) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, err := range all {
		if err != nil {
			return err
		}
		return &InputError{
			Reason: "the snapshot is empty, and the set has resources; if all of them are to be deleted, say so by --allow-empty (?allow-empty=true)",
		}
	}
	return nil
}

// put reads the lines.
func (m Importer) put(ctx context.Context, i ResourceImport, r io.Reader, done *Imported) error {
	source := bufio.NewReaderSize(r, 64<<10)
	waiting := waitingLines{to: i}
	for number := 1; ; number++ {
		line, readErr := readLine(source)
		switch {
		case errors.Is(readErr, errLineTooLong):
			return errTooLong().at("line", number)
		case readErr != nil && !errors.Is(readErr, io.EOF):
			return fmt.Errorf("read line %d: %w", number, readErr)
		}
		if !blank(line) {
			e, err := ParseResource(line)
			if err != nil {
				return inputError(err).at("line", number)
			}
			waiting.add(e, number, len(line))
			done.Resources++
		}
		if readErr != nil || waiting.full() {
			if err := waiting.put(ctx); err != nil {
				return err
			}
			if m.Progress != nil {
				m.Progress(*done)
			}
		}
		if readErr != nil {
			return nil
		}
	}
}

// waitingLines are resources that were read and are not put yet.
type waitingLines struct {
	to        ResourceImport
	resources []payload.Entry
	numbers   []int // of their lines
	bytes     int
}

// waitingBytes is about how much of the lines may wait.
const waitingBytes = 1 << 20

func (w *waitingLines) add(e payload.Entry, number, bytes int) {
	w.resources, w.numbers = append(w.resources, e), append(w.numbers, number)
	w.bytes += bytes
}

func (w *waitingLines) full() bool { return len(w.resources) == linesAtOnce || w.bytes >= waitingBytes }

func (w *waitingLines) put(ctx context.Context) error {
	err := w.to.Put(ctx, w.resources)
	var twice *DuplicateError
	if errors.As(err, &twice) {
		wrong := &InputError{Field: "loc", Reason: "stands twice: " + shown(w.resources[twice.Index].Loc)}
		return wrong.at("line", w.numbers[twice.Index])
	}
	w.resources, w.numbers, w.bytes = w.resources[:0], w.numbers[:0], 0
	return err
}

// Apply makes events of all the differences, and closes the import. ResumeImports returns the rest
// after an error, or the end of ctx, also after a restart.
func (m Importer) Apply(ctx context.Context, i ResourceImport, done *Imported) error {
	for more := true; more; {
		step, err := Differences{}, error(nil)
		now := time.Now
		if m.Now != nil {
			now = m.Now
		}
		if step, more, err = i.Apply(ctx, now()); err != nil {
			return errors.Join(err, i.Close())
		}
		done.add(step)
		if m.Progress != nil {
			m.Progress(*done)
		}
	}
	return i.Close()
}
