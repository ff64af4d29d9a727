package main

import (
	"archive/zip"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/flate"

	source "carillon/destination/lists"
)

const (
	// perPackage is how many entries a ZIP of the loop has at most, as the notifier's.
	perPackage = 50_000
	// loopLevel is the level of DEFLATE of the loop that packs.
	loopLevel   = 3
	loopBuffer  = 256 << 10
	loopZIP     = "loop.zip"
	loopZIPMode = 0o600
)

// packing is the loop that packs.
type packing struct {
	dir    string
	pack   zip.Compressor // nil: that of archive/zip
	file   *os.File
	out    *bufio.Writer
	zip    *zip.Writer
	left   int // entries that the ZIP may still get
	buffer []byte
}

// packAll reads, hashes and packs each file below a directory, in the order of their names, into
// ZIPs in another. It leaves the last of them there.
func packAll(from, to string, pack zip.Compressor) error {
	p := &packing{dir: to, pack: pack, buffer: make([]byte, loopBuffer)}
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if p.left == 0 {
			if err := p.next(); err != nil {
				return err
			}
		}
		p.left--
		return p.add(name, name[len(from)+1:])
	})
	if err != nil {
		return err
	}
	return p.end()
}

// next ends one ZIP, and begins another.
func (p *packing) next() (err error) {
	if err := p.end(); err != nil {
		return err
	}
	if p.file, err = os.OpenFile(filepath.Join(p.dir, loopZIP), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, loopZIPMode); err != nil {
		return err
	}
	p.out, p.left = bufio.NewWriterSize(p.file, loopBuffer), perPackage
	p.zip = zip.NewWriter(p.out)
	if p.pack != nil {
		p.zip.RegisterCompressor(zip.Deflate, p.pack)
	}
	return nil
}

func (p *packing) end() error {
	if p.file == nil {
		return nil
	}
	if err := p.zip.Close(); err != nil {
		return err
	}
	if err := p.out.Flush(); err != nil {
		return err
	}
	return p.file.Close()
}

func (p *packing) add(name, as string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := p.zip.CreateHeader(&zip.FileHeader{Name: as, Method: zip.Deflate})
	if err != nil {
		return err
	}
	sum := sha256.New()
	// Neither may take over the copying: both would with buffers of their own.
	to := struct{ io.Writer }{io.MultiWriter(w, sum)}
	_, err = io.CopyBuffer(to, struct{ io.Reader }{f}, p.buffer)
	_ = sum.Sum(nil)
	return err
}

// packer is a DEFLATE that is used again for the next entry.
type packer struct{ *flate.Writer }

// newPacker returns a Compressor for one goroutine.
func newPacker() (zip.Compressor, error) {
	w, err := flate.NewWriter(io.Discard, loopLevel)
	return func(to io.Writer) (io.WriteCloser, error) {
		w.Reset(to)
		return packer{w}, nil
	}, err
}

// unpackAll gets packages, unpacks and hashes each entry, and writes it below to, if that is not
// empty. It returns how many entries there were.
func (d *dumping) unpackAll(ctx context.Context, packages []source.Package, to string) (entries int, err error) {
	buffer := make([]byte, loopBuffer)
	for _, p := range packages {
		name := filepath.Join(d.dir, loopZIP)
		if err := d.download(ctx, p.URI, name, buffer); err != nil {
			return entries, err
		}
		n, err := unpack(name, to, buffer)
		if entries += n; err != nil {
			return entries, fmt.Errorf("%s: %w", p.URI, err)
		}
	}
	return entries, os.Remove(filepath.Join(d.dir, loopZIP))
}

func (d *dumping) download(ctx context.Context, uri, name string, buffer []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", uri, resp.Status)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, resp.Body, buffer); err != nil {
		return fmt.Errorf("GET %s: %w", uri, err)
	}
	return f.Close()
}

func unpack(name, to string, buffer []byte) (entries int, err error) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return 0, err
	}
	defer z.Close()
	for _, f := range z.File {
		entries++
		if err := unpackOne(f, to, buffer); err != nil {
			return entries, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return entries, nil
}

func unpackOne(f *zip.File, to string, buffer []byte) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	w := io.Writer(sum)
	if to != "" {
		out, err := create(filepath.Join(to, filepath.FromSlash(f.Name)))
		if err != nil {
			return err
		}
		defer out.Close()
		w = io.MultiWriter(sum, out)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, r, buffer)
	_ = sum.Sum(nil)
	return err
}

// create creates a file, and its directory where it is missing.
func create(name string) (*os.File, error) {
	f, err := os.Create(name)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			f, err = os.Create(name)
		}
	}
	return f, err
}
