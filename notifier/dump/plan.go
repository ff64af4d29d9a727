package dump

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"carillon/notifier"
	"carillon/notifier/moments"
	"carillon/payload"
)

// A plan lists the content of a future generation: the snapshot of a set, or the events of a Change
// List, in a file. The part that a killed process has not packed is packed from there.
const (
	planName    = "plan"
	planInfo    = "plan.json" // its presence says that the plan is whole
	planBuffer  = 64 << 10
	maxPlanned  = 2 << 20 // bytes of one record
	planFixed   = 9       // the flags and the datetime
	sameContent = 1       // flag: the change before of the same resource has its content
)

// plan describes the file of a plan.
type plan struct {
	Version int       `json:"version"`
	Set     string    `json:"set"`
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at,omitzero"`
	From    time.Time `json:"from,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	// Entries are those of the file, Content the bytes that they have by their descriptions.
	Entries int   `json:"entries"`
	Content int64 `json:"content"`
}

// planned is one entry of a plan.
type planned struct {
	payload.Entry
	same bool  // sameContent
	next int64 // offset in the file, of the entry that follows
}

// planWriter writes a plan.
type planWriter struct {
	plan
	dir     string
	file    *os.File
	out     *bufio.Writer
	scratch []byte
	room    *room
}

// newPlan begins a generation: it creates its directory, and the plan in it.
func (s *shelf) newPlan(p plan) (*planWriter, error) {
	p.Version, p.Set = versionKnown, s.name
	if err := s.d.room.look(); err != nil {
		return nil, err
	}
	begins := p.At
	if p.Kind == Changes {
		begins = p.From
	}
	dir, err := moments.Begin(filepath.Dir(s.d.cfg.Dir), s.dirOf(p.Kind), begins)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, planName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(s.d.room.writer(f), planBuffer)
	return &planWriter{plan: p, dir: dir, file: f, out: out, room: s.d.room}, nil
}

func (w *planWriter) add(e *payload.Entry, same bool) error {
	flags := byte(0)
	if same {
		flags = sameContent
	}
	w.scratch = append(w.scratch[:0], flags)
	w.scratch = binary.BigEndian.AppendUint64(w.scratch, uint64(e.Datetime.UnixMicro()))
	w.scratch = notifier.AppendRecord(w.scratch, &notifier.Event{Entry: *e})
	var length [binary.MaxVarintLen64]byte
	if _, err := w.out.Write(length[:binary.PutUvarint(length[:], uint64(len(w.scratch)))]); err != nil {
		return err
	}
	_, err := w.out.Write(w.scratch)
	w.Entries++
	if size, err := strconv.ParseInt(e.Length, 10, 64); err == nil && !same {
		w.Content += size
	}
	return err
}

// finish makes the plan durable.
func (w *planWriter) finish() error {
	err := w.out.Flush()
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return err
	}
	return w.room.writeJSON(filepath.Join(w.dir, planInfo), w.plan)
}

// loadPlan reads what is known of the plan in a directory.
func loadPlan(dir string) (p plan, err error) {
	if err = moments.ReadJSON(
		filepath.Join(dir, planInfo), maxGeneration, &p,
	); err == nil && p.Version != versionKnown {
		err = errors.New("it is of another version of the program")
	}
	return p, err
}

// entries reads the plan in a directory from an offset on.
func (p *plan) entries(ctx context.Context, dir string, from int64) iter.Seq2[*planned, error] {
	return func(yield func(*planned, error) bool) {
		f, err := os.Open(filepath.Join(dir, planName))
		if err == nil {
			defer f.Close() // it was only read
			_, err = f.Seek(from, io.SeekStart)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		in, at := bufio.NewReaderSize(f, planBuffer), from
		for ctx.Err() == nil {
			one, n, err := readPlanned(in)
			if errors.Is(err, io.EOF) {
				return
			}
			at += n
			if err != nil {
				yield(nil, fmt.Errorf("the plan: %w", err))
				return
			}
			one.next = at
			if !yield(one, nil) {
				return
			}
		}
	}
}

// readPlanned reads one entry, and returns how many bytes it has. io.EOF is the end.
func readPlanned(in *bufio.Reader) (*planned, int64, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, 0, err
	}
	if size < planFixed || size > maxPlanned {
		return nil, 0, notifier.ErrRecord
	}
	record := make([]byte, size)
	if _, err := io.ReadFull(in, record); err != nil {
		return nil, 0, io.ErrUnexpectedEOF
	}
	event, err := notifier.ParseRecord(record[planFixed:])
	if err != nil {
		return nil, 0, err
	}
	event.Datetime = time.UnixMicro(int64(binary.BigEndian.Uint64(record[1:planFixed]))).UTC()
	one := &planned{Entry: event.Entry, same: record[0]&sameContent != 0}
	return one, int64(size) + int64(len(binary.AppendUvarint(nil, size))), nil
}

// end makes the plan durable, and returns it with its directory. After an error, also one that came
// before, nothing is left of it.
func (w *planWriter) end(err error) (dir string, p plan, _ error) {
	if err != nil {
		err = errors.Join(err, w.file.Close())
	} else {
		err = w.finish()
	}
	if err != nil {
		return "", p, errors.Join(err, w.room.remove(w.dir))
	}
	return w.dir, w.plan, nil
}
