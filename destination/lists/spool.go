package lists

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// inRAM is how much of a document is held in memory, bytes; a larger one is
// put down in a file.
const inRAM = 1 << 20

// spool holds a document that is read twice: to its end, before the first of its
// entries is handed on, and then for its entries.
type spool struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
}

// Write appends to what is held.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) <= inRAM {
		return s.mem.Write(p)
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, fmt.Errorf("putting down a document: %w", err)
		}
	}
	n, err := s.file.Write(p)
	if err != nil {
		return n, fmt.Errorf("putting down a document: %w", err)
	}
	return n, nil
}

func (s *spool) open() error {
	f, err := os.CreateTemp(s.dir, "carillon-list-*.xml")
	if err != nil {
		return err
	}
	// Where the system lets an open file be removed nothing stays behind after a crash.
	_ = os.Remove(f.Name())
	s.file = f
	_, err = s.file.Write(s.mem.Bytes())
	s.mem = bytes.Buffer{}
	return err
}

// reader returns what is held, from its beginning.
func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.mem.Bytes()), nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading a document that was put down: %w", err)
	}
	return s.file, nil
}

// close lets go of it.
func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name())
		s.file = nil
	}
	s.mem = bytes.Buffer{}
}
