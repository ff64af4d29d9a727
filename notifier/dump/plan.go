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

	"carillon/internal/durable"
	"carillon/notifier"
	"carillon/payload"
)

// A plan is what a generation will have: the snapshot of a set, or the events of a Change List, in
// a file. What a killed process has not packed is packed from there.
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
	// Entries are those of the file, Content the bytes that they have by what is told of them.
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

// newPlan creates the directory for a generation that begins.
func newPlan(dir string, p plan, room *room) (*planWriter, error) {
	p.Version = versionKnown
	if err := room.look(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, planName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &planWriter{plan: p, dir: dir, file: f, out: bufio.NewWriterSize(room.writer(f), planBuffer), room: room}, nil
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
	if err := w.room.writeJSON(filepath.Join(w.dir, planInfo), w.plan); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(w.dir))
}

// loadPlan reads what is known of the plan in a directory.
func loadPlan(dir string) (p plan, err error) {
	if err = readJSON(filepath.Join(dir, planInfo), &p); err == nil && p.Version != versionKnown {
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

// end is finish, or what came before it went wrong.
func (w *planWriter) end(err error) error {
	if err != nil {
		return errors.Join(err, w.file.Close())
	}
	return w.finish()
}
