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
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sync/errgroup"
)

const (
	// fetches is how many files are fetched at a time, by the mirror and by the loop.
	fetches = 8
	// perPackage is how many entries a ZIP of the loop has at most, as the notifier's.
	perPackage = 50_000
	// loopLevel is the level of DEFLATE of the loop that packs.
	loopLevel  = 3
	loopBuffer = 256 << 10
	loopZIP    = "loop.zip"
)

// file is the path of the i-th file of a Source.
func file(i int) string { return fmt.Sprintf("%03d/file-%06d.txt", i/perDirectory, i) }

// textOf is what a file has: to a packer it is like prose.
func textOf(i, size int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), uint64(size)))
	text := make([]byte, 0, size)
	for len(text) < size {
		// A vocabulary of some thousand words, the first of which are frequent.
		word := uint64(rng.ExpFloat64()*400) * 0x9e3779b97f4a7c15
		for range 2 + word>>61 {
			text = append(text, "etaoinshrdlucmfw"[word&15])
			word >>= 4
		}
		text = append(text, ' ')
	}
	return text[:size]
}

func writeFile(name string, text []byte) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
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

// getAll is the loop that gets files: so many below a base, into a directory.
func getAll(ctx context.Context, base, to string, files int) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range fetches {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < files; i = int(next.Add(1)) - 1 {
				text, err := get(ctx, base+file(i))
				if err != nil {
					return err
				}
				if err := writeFile(filepath.Join(to, file(i)), text); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

var sourceClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fetches}}

func get(ctx context.Context, url string) ([]byte, error) {
	body, err := open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// open is the body of what is at a URL.
func open(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := sourceClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return resp.Body, nil
}

// packing is the loop that packs.
type packing struct {
	dir    string
	pack   *flate.Writer // used again for each entry
	file   *os.File
	out    *bufio.Writer
	zip    *zip.Writer
	left   int // entries that the ZIP may still get
	buffer []byte
}

// packAll reads, hashes and packs each file below a directory, in the order of their names, into
// ZIPs in another. It leaves the last of them there.
func packAll(from, to string) error {
	pack, err := flate.NewWriter(io.Discard, loopLevel)
	if err != nil {
		return err
	}
	p := &packing{dir: to, pack: pack, buffer: make([]byte, loopBuffer)}
	err = filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
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
	if p.file, err = create(filepath.Join(p.dir, loopZIP)); err != nil {
		return err
	}
	p.out, p.left = bufio.NewWriterSize(p.file, loopBuffer), perPackage
	p.zip = zip.NewWriter(p.out)
	p.zip.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		p.pack.Reset(to)
		return p.pack, nil
	})
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

// unpackAll gets packages into a directory, unpacks and hashes each entry, and writes it below to.
// It returns how many entries there were.
func unpackAll(ctx context.Context, packages []string, dir, to string) (entries int, err error) {
	buffer := make([]byte, loopBuffer)
	name := filepath.Join(dir, loopZIP)
	for _, uri := range packages {
		if err := download(ctx, uri, name, buffer); err != nil {
			return entries, err
		}
		n, err := unpack(name, to, buffer)
		if entries += n; err != nil {
			return entries, fmt.Errorf("%s: %w", uri, err)
		}
	}
	return entries, os.Remove(name)
}

func download(ctx context.Context, uri, name string, buffer []byte) error {
	body, err := open(ctx, uri)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := create(name)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, body, buffer); err != nil {
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
	out, err := create(filepath.Join(to, filepath.FromSlash(f.Name)))
	if err != nil {
		return err
	}
	defer out.Close()
	sum := sha256.New()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(sum, out)}, r, buffer)
	_ = sum.Sum(nil)
	return err
}
