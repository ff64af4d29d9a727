package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/klauspost/compress/flate"

	"carillon/internal/await"
	"carillon/internal/digests"
	"carillon/payload"
)

const (
	// smallContent is how many bytes of content are packed in memory; more goes through a file.
	smallContent = 256 << 10
	// copyBuffer is for content that goes through a file.
	copyBuffer = 128 << 10
	// maxContent bounds the content of one resource, bytes.
	maxContent = 1 << 40
	// attempts is how often the content of a resource is asked for.
	attempts = 4
	// firstPause is the time before the second attempt; it doubles from there.
	firstPause = time.Second
	// packLevel packs text as small as level 6 does, for four fifths of its time.
	packLevel = 3
)

// item is the packed content of one entry, or why it has none.
type item struct {
	member
	buffer *bytes.Buffer // of bufferPool; nil where file is set
	file   string
	// entry is what the package says of it.
	entry payload.Entry
	err   error // a *LeftOutError, or what ends the making
}

// packer packs the content of resources. Its methods may be called from any goroutine.
type packer struct {
	source  Source
	unasked func(loc string) error // why content is not to be asked for; nil: it is
	current func(ctx context.Context, loc string) (payload.Entry, bool, error)
	limits  contentLimits
	dir     string // for files
	room    *room
	files   func() int // the number of the next file
	pause   time.Duration
}

// contentLimits bound the content of one resource.
type contentLimits struct {
	most   int64 // bytes
	untold int64 // bytes where neither the set nor the answer says how many there are
}

// The pools of what packing takes.
var (
	bufferPool  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	deflatePool = sync.Pool{New: func() any {
		w, _ := flate.NewWriter(io.Discard, packLevel) // the level is one that there is
		return w
	}}
	copyPool = sync.Pool{New: func() any { return new([copyBuffer]byte) }}
)

// pack gets what a resource is now, and packs it. It tries again where that may help.
func (p *packer) pack(ctx context.Context, e *payload.Entry) *item {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.pause), backoff.WithMultiplier(2))
	for attempt := 1; ; attempt++ {
		it, err := p.packOnce(ctx, e)
		if err == nil {
			return it
		}
		left, is := errors.AsType[*LeftOutError](err)
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if is && left.Again && attempt < attempts {
			if await.For(ctx, pause.NextBackOff()) == nil {
				continue
			}
			err = ctx.Err()
		}
		return &item{entry: *e, err: err}
	}
}

func (p *packer) packOnce(ctx context.Context, e *payload.Entry) (it *item, err error) {
	if err := p.unasked(e.Loc); err != nil {
		return nil, err
	}
	content, err := p.source.Open(ctx, e)
	if err != nil {
		return nil, p.explained(ctx, e, err)
	}
	defer content.Close() // it was only read
	if content.Size > p.limits.most {
		return nil, leftOut(TooLarge, false, "it has %d bytes, more than the limit of %d",
			content.Size, p.limits.most)
	}
	told, _ := digests.Parse(e.Hash)
	var now payload.Entry
	var known bool
	if !content.Own {
		// The set's present description counts where the resource has changed since the snapshot.
		if now, known, err = p.current(ctx, e.Loc); err != nil {
			return nil, err
		}
	}
	most := p.limits.most
	if longest, told := longestTold(e, &now, known); told && !content.Own {
		// A server that sends something else must not fill the disk with it first.
		if content.Size > longest {
			return nil, leftOut(Differs, true, "it has %d bytes, and the set has a length of %d",
				content.Size, longest)
		}
		most = min(most, longest)
	}
	more, _ := digests.Parse(now.Hash)
	h := digests.New(append(told[:len(told):len(told)], more...))
	it = &item{entry: *e}
	if err := p.read(ctx, it, content, h, most); err != nil {
		it.discard(p.room)
		return nil, err
	}
	it.entry = describe(e, content, it.size, told, h)
	if !content.Own && !matches(e, told, it.size, h) {
		if !known {
			err = errDeleted()
		} else if !matches(&now, more, it.size, h) {
			err = differs(e, told, it.size, h)
		}
		if err != nil {
			it.discard(p.room)
			return nil, err
		}
		it.entry = describe(&now, content, it.size, more, h)
		it.entry.Change, it.entry.Datetime = e.Change, e.Datetime
	}
	return it, nil
}

func errDeleted() error { return leftOut(Deleted, false, "the set does not have it any more") }

// explained is the error of Open; where a resource is missing because it was deleted since, it says
// so.
func (p *packer) explained(ctx context.Context, e *payload.Entry, err error) error {
	if left, is := errors.AsType[*LeftOutError](err); !is || left.Reason != Missing {
		return err
	}
	switch _, known, lookErr := p.current(ctx, e.Loc); {
	case lookErr != nil:
		return lookErr
	case !known:
		return errDeleted()
	}
	return err
}

// matches reports whether content is what an entry says.
func matches(e *payload.Entry, told []digests.Digest, size int64, h *digests.Hashing) bool {
	if e.Length != "" && e.Length != strconv.FormatInt(size, 10) {
		return false
	}
	_, _, differs := h.Differs(told)
	return !differs
}

func differs(e *payload.Entry, told []digests.Digest, size int64, h *digests.Hashing) error {
	if wrong, have, is := h.Differs(told); is {
		return leftOut(Differs, true, "its hash is %s:%s, and the set has %s", wrong.Algorithm, have, wrong.Hex)
	}
	return leftOut(Differs, true, "it has %d bytes, and the set has a length of %s", size, e.Length)
}

// describe returns the description of content in a package: the set's where that is true of it, else
// its own hash, length and time.
func describe(e *payload.Entry, c *Content, size int64, told []digests.Digest, h *digests.Hashing) payload.Entry {
	d := *e
	same := matches(e, told, size, h)
	if !same || len(told) == 0 {
		d.Hash = fmt.Sprintf("sha-256:%x", h.SHA256())
	}
	d.Length = strconv.FormatInt(size, 10)
	if (!same || d.LastMod == "") && c.LastMod != "" {
		d.LastMod = c.LastMod
	}
	if (!same || d.Type == "") && c.Type != "" {
		d.Type = c.Type
	}
	if !c.Own {
		d.Encoding = c.Encoding
	}
	return d
}

// longestTold returns the larger of the lengths that the snapshot and the set of now give for a
// resource, in bytes. It reports false if one of them gives none.
func longestTold(e, now *payload.Entry, known bool) (longest int64, told bool) {
	longest, err := strconv.ParseInt(e.Length, 10, 64)
	if err != nil {
		return 0, false
	}
	if known {
		length, err := strconv.ParseInt(now.Length, 10, 64)
		if err != nil {
			return 0, false
		}
		longest = max(longest, length)
	}
	return longest, true
}

// read packs what the content has, at most limit bytes, in memory if it is small.
func (p *packer) read(ctx context.Context, it *item, c *Content, h *digests.Hashing, limit int64) error {
	raw := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(raw)
	raw.Reset()
	if c.Size < 0 {
		limit = min(limit, p.limits.untold)
	}
	n, err := raw.ReadFrom(io.LimitReader(c, smallContent+1))
	if err != nil {
		return readTrouble(ctx, err)
	}
	packs := !packedAlready(it.entry.Type, c.Type)
	if n <= smallContent {
		if c.Check != nil {
			if err := c.Check(); err != nil {
				return err
			}
		}
		_, _ = h.Write(raw.Bytes()) // a hash takes everything
		it.small(raw.Bytes(), packs)
		return nil
	}
	return p.large(ctx, it, c, io.MultiReader(raw, c), h, limit, packs)
}

// readTrouble is an error of a reader as a reason to leave out.
func readTrouble(ctx context.Context, err error) error {
	if _, is := errors.AsType[*LeftOutError](err); is {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return leftOut(Unreadable, true, "it cannot be read: %v", err)
}

// small packs content that is in memory.
func (it *item) small(raw []byte, packs bool) {
	it.size, it.crc = int64(len(raw)), crc32.Checksum(raw, crcTable)
	to := bufferPool.Get().(*bytes.Buffer)
	to.Reset()
	if packs && len(raw) > 0 {
		deflater := deflatePool.Get().(*flate.Writer)
		deflater.Reset(to)
		_, err := deflater.Write(raw)
		err = errors.Join(err, deflater.Close()) // memory takes everything
		deflatePool.Put(deflater)
		it.method = methodDeflate
		if err != nil || to.Len() >= len(raw) {
			packs = false
		}
	}
	if !packs || len(raw) == 0 {
		to.Reset()
		_, _ = to.Write(raw)
		it.method = methodStore
	}
	it.buffer = to
	it.packed = int64(to.Len())
}

// large packs content through a file.
func (p *packer) large(
	ctx context.Context, it *item, c *Content, from io.Reader, h *digests.Hashing, limit int64, packs bool,
) (err error) {
	it.file = filepath.Join(p.dir, "large-"+strconv.Itoa(p.files())+tempSuffix)
	f, err := os.OpenFile(it.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	count := &countingWriter{to: p.room.writer(f)}
	var to io.Writer = count
	var deflater *flate.Writer
	if packs {
		deflater = deflatePool.Get().(*flate.Writer)
		defer deflatePool.Put(deflater)
		deflater.Reset(count)
		to = deflater
	}
	it.method = methodStore
	if packs {
		it.method = methodDeflate
	}
	sum := crc32.New(crcTable)
	buffer := copyPool.Get().(*[copyBuffer]byte)
	defer copyPool.Put(buffer)
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			it.size += int64(n)
			if it.size > limit {
				return leftOut(TooLarge, false, "it has more bytes than the limit of %d", limit)
			}
			_, _ = h.Write(buffer[:n])
			_, _ = sum.Write(buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return readTrouble(ctx, err)
		}
	}
	if deflater != nil {
		if err := deflater.Close(); err != nil {
			return err
		}
	}
	it.crc, it.packed = sum.Sum32(), count.n
	if c.Check != nil {
		return c.Check()
	}
	return nil
}

type countingWriter struct {
	to io.Writer
	n  int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.n += int64(n)
	return n, err
}

// discard lets go of what an item holds.
func (it *item) discard(r *room) {
	if it.buffer != nil {
		bufferPool.Put(it.buffer)
		it.buffer = nil
	}
	if it.file != "" {
		_ = r.remove(it.file) // else the next start sweeps it
		it.file = ""
	}
}

// packedTypes are media types whose content gets no smaller.
var packedTypes = map[string]bool{
	"application/gzip": true, "application/x-gzip": true, "application/zip": true, "application/x-7z-compressed": true,
	"application/x-bzip2": true, "application/x-xz": true, "application/zstd": true, "application/vnd.rar": true,
	"application/java-archive": true, "application/epub+zip": true, "application/x-compress": true,
	"image/jpeg": true, "image/png": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/heic": true,
	"image/jp2": true, "font/woff": true, "font/woff2": true,
}

// packedAlready reports whether content of a media type is packed already. A PDF is not in the
// table: many have parts that are not packed.
func packedAlready(types ...string) bool {
	for _, t := range types {
		kind, _, _ := strings.Cut(strings.ToLower(t), ";")
		kind = strings.TrimSpace(kind)
		if packedTypes[kind] || strings.HasPrefix(kind, "video/") ||
			strings.HasPrefix(kind, "audio/") && kind != "audio/wav" && kind != "audio/x-wav" ||
			strings.HasPrefix(kind, "application/vnd.openxmlformats-officedocument") ||
			strings.HasPrefix(kind, "application/vnd.oasis.opendocument") {
			return true
		}
	}
	return false
}
