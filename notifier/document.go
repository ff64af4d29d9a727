package notifier

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"carillon/internal/negotiate"
	"carillon/internal/readings"
	"carillon/payload"
)

// document is what a public address has at one moment. Its bytes are made while
// they are sent, in pieces, so that a document of any size takes the memory of a piece.
type document struct {
	// kind is what the metrics call it.
	kind documentKind
	// tag is the entity tag without its quotes: no two documents of one address
	// have the same, unless they have the same bytes.
	tag string
	// modified is when the document became what it is, or later.
	modified time.Time
	// lasting: it will never be another.
	lasting bool
	// write hands the pieces on, in order. It holds nothing of the journal's
	// while it hands one on: the client may take its time.
	write func(ctx context.Context, emit func(piece []byte) error) error
	// stored opens a document that is kept packed; there is no write then.
	stored func() (*storedReader, error)
}

// documents answers requests for documents.
type documents struct {
	answers
	metrics  *metrics
	readings *readings.Readings
	now      func() time.Time // the wall clock
}

// readDocument is readOnly for a document, which counts the outcome of the request.
func (s *documents) readDocument(kind documentKind, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := fateBroken
		defer func() { s.metrics.asked(kind, f) }()
		noted := &statusNote{ResponseWriter: w}
		err := only(r, http.MethodGet, http.MethodHead)
		if err == nil {
			err = h(noted, r)
		}
		if err != nil {
			f = fateOf(s.fail(noted, r, err))
			return
		}
		f = fateOf(noted.status)
	})
}

// statusNote records the status of an answer, where it is not 200.
type statusNote struct {
	http.ResponseWriter
	status int
}

func (w *statusNote) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (w *statusNote) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// pieceBytes is about how large a piece of a document is.
const pieceBytes = 256 << 10

// serveDocument answers with the document, packed where the client takes that, or with
// 304 where the client has it (RFC 9110 §13).
func (s *documents) serveDocument(w http.ResponseWriter, r *http.Request, d document) error {
	packed := negotiate.Gzip(r.Header)
	tag := `"` + d.tag + `"`
	if packed {
		tag = `"` + d.tag + `-gzip"` // other bytes
	}
	now := s.now()
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Last-Modified", lastModified(d.modified, now))
	header.Set("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "no-cache") // asked for again each time: a change may have come
	if d.lasting {
		header.Set("Cache-Control", "public, max-age=2592000, immutable")
	}
	if unchanged(r.Header, tag, d.modified, now) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", "application/xml")
	if packed {
		header.Set("Content-Encoding", "gzip")
	}
	if d.stored != nil {
		return s.sendStored(w, r, d, packed)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	return s.send(w, r, d, packed)
}

// send writes the document. A fault before the first byte is an answer of its own; after that the
// connection is broken off, so that no client takes a part for the whole.
func (s *documents) send(w http.ResponseWriter, r *http.Request, d document, packed bool) error {
	one, r, err := s.readings.Enter(clientOf(r.RemoteAddr), w, r)
	if err != nil {
		return err
	}
	defer one.Leave()
	ctx := r.Context()
	out := io.Writer(w)
	var pack *gzip.Writer
	if packed {
		pack = packers.Get().(*gzip.Writer)
		defer packers.Put(pack)
		pack.Reset(w)
		out = pack
	}
	begun := false
	var gone error // the client
	err = d.write(ctx, func(piece []byte) error {
		begun = true
		if gone = ctx.Err(); gone == nil {
			_, gone = out.Write(piece)
		}
		return gone
	})
	if err == nil && pack != nil {
		gone = pack.Close()
		err = gone
	}
	switch {
	case err == nil:
		return nil
	case !begun && ctx.Err() == nil:
		return err
	case gone == nil && ctx.Err() == nil:
		s.log.Error("a document was broken off", "document", string(d.kind), "error", err)
	}
	panic(http.ErrAbortHandler)
}

// storedReader is a document that is kept packed.
type storedReader struct {
	*os.File
	size, packed int64
}

// openPacked opens a packed file. Its last bytes are its size unpacked, as no document has 4 GiB.
func openPacked(path string) (_ *storedReader, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var size [4]byte
	packed, err := file.Seek(-int64(len(size)), io.SeekEnd)
	if err == nil {
		_, err = io.ReadFull(file, size[:])
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("an archived document: %w", err), file.Close())
	}
	unpacked := int64(binary.LittleEndian.Uint32(size[:]))
	return &storedReader{File: file, size: unpacked, packed: packed + int64(len(size))}, nil
}

// length is how many bytes are to be sent.
func (r *storedReader) length(packed bool) int64 {
	if packed {
		return r.packed
	}
	return r.size
}

// sendStored answers with a document that is kept packed, unpacked where the client
// wants that. The head is written already but for the length.
func (s *documents) sendStored(w http.ResponseWriter, r *http.Request, d document, packed bool) error {
	file, err := d.stored()
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	w.Header().Set("Content-Length", strconv.FormatInt(file.length(packed), 10))
	if r.Method == http.MethodHead {
		return nil
	}
	one, r, err := s.readings.Enter(clientOf(r.RemoteAddr), w, r)
	if err != nil {
		return err
	}
	defer one.Leave()
	ctx := r.Context()
	from := io.Reader(file)
	if !packed {
		unpacker, err := gzip.NewReader(file)
		if err != nil {
			return fmt.Errorf("a Resource List: %w", err)
		}
		from = unpacker
	}
	buffer := make([]byte, pieceBytes/4)
	sent, err := copyWhile(ctx, w, from, buffer)
	if err == nil && sent == file.length(packed) {
		return nil
	}
	if ctx.Err() == nil && !errors.Is(err, errClientGone) {
		s.log.Error("a document was broken off", "document", string(d.kind), "error", err)
	}
	panic(http.ErrAbortHandler) // so that no client takes a part for the whole
}

var errClientGone = errors.New("the client has gone")

// copyWhile copies until ctx ends.
func copyWhile(ctx context.Context, to io.Writer, from io.Reader, buffer []byte) (sent int64, err error) {
	for ctx.Err() == nil {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return sent, fmt.Errorf("%w: %w", errClientGone, err)
			}
			sent += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return sent, nil
		case err != nil:
			return sent, err
		}
	}
	return sent, ctx.Err()
}

// packers keeps what packing takes, which is most of a megabyte.
var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one that there is
	return w
}}

// pieces returns the write of a document: it emits a head and so many entries.
func pieces(
	head []byte, entries int, index bool, add func(dst []byte, i int) ([]byte, error),
) func(context.Context, func([]byte) error) error {
	return func(_ context.Context, emit func([]byte) error) error {
		piece := slices.Clone(head)
		for i := range entries {
			var err error
			if piece, err = add(piece, i); err != nil {
				return err
			}
			if len(piece) >= pieceBytes {
				if err := emit(piece); err != nil {
					return err
				}
				piece = piece[:0]
			}
		}
		return emit(payload.AppendTail(piece, index))
	}
}

// packDocument writes a document to a file, packed and durable.
func packDocument(ctx context.Context, path string, d document) (size int64, err error) {
	return pack(path, func(to io.Writer) error {
		return d.write(ctx, func(piece []byte) error {
			_, err := to.Write(piece)
			return cmp.Or(err, ctx.Err())
		})
	})
}

// pack writes a file that is packed, and durable, and returns its size.
func pack(name string, write func(io.Writer) error) (size int64, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	packer := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	packer.Reset(file)
	err = write(packer)
	if err == nil {
		err = packer.Close()
	}
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	return size, errors.Join(err, file.Sync(), file.Close())
}

// lastModified returns the Last-Modified of a document. The current second may still see another
// document. So until it is over the answer has the second before, and a client that asks by it gets
// the new one.
func lastModified(modified, now time.Time) string {
	second, current := modified.Truncate(time.Second), now.Truncate(time.Second)
	if !second.Before(current) {
		second = current.Add(-time.Second)
	}
	return second.UTC().Format(http.TimeFormat)
}

// unchanged reports whether the client has the document, by its tag or else by its date
// (RFC 9110 §13.2.2).
func unchanged(header http.Header, tag string, modified, now time.Time) bool {
	if len(header.Values("If-None-Match")) > 0 {
		return negotiate.HasTag(header, tag)
	}
	since, err := http.ParseTime(header.Get("If-Modified-Since"))
	second := modified.Truncate(time.Second)
	return err == nil && second.Before(now.Truncate(time.Second)) && !second.After(since)
}

// tagFrom makes an entity tag of the parts by which a document differs from others of its address.
func tagFrom(head []byte, parts ...any) string {
	h := fnv.New64a()
	_, _ = h.Write(head)
	_, _ = fmt.Fprint(h, parts...)
	return strconv.FormatUint(h.Sum64(), 36)
}
