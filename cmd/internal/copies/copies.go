// Package copies has the commands that write all that a hub keeps to a file or a pipe, and read it
// back: hub export and hub import by records (package transfer), hub backup and hub restore by the
// files of Pebble. The file that is written is there when it is whole. A file that is read is
// checked to its end before anything is written to the store.
//
// The fields of a command are its flags, with the tags by which cmd/hub reads them.
package copies

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"carillon/internal/durable"
	"carillon/internal/engine"
	"carillon/operator/ask"
)

// Command writes or reads a copy of a store.
type Command interface {
	Run(ctx context.Context, call Call) error
}

// Call is what a command works with.
type Call struct {
	ask.Call
	Engine engine.Config // says where the store is
}

// screened refuses to write secrets to a terminal. The parameter what names the data, with its article.
func (call *Call) screened(what string) error {
	if ask.IsTerminal(call.Stdout) {
		return fmt.Errorf("%s holds secrets and is not for the screen: give --output FILE, or a pipe", what)
	}
	return nil
}

// writeBuffer gathers lines for one write.
const writeBuffer = 256 << 10

// write writes to a file, or to standard output if file is "".
func (call *Call) write(ctx context.Context, file string, write func(io.Writer) error) error {
	if file == "" {
		return writeStream(ctx, call.Stdout, write)
	}
	return writeFile(file, write)
}

// writeStream writes to where a reader may not read on: the end of ctx ends that
// wait.
func writeStream(ctx context.Context, w io.Writer, write func(io.Writer) error) error {
	from, to := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = from.CloseWithError(ctx.Err()) })()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, from)
		_ = from.CloseWithError(err) // a write that is still running gets the error
		copied <- err
	}()
	buffered := bufio.NewWriterSize(to, writeBuffer)
	err := write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	_ = to.CloseWithError(err)
	if err != nil {
		return err
	}
	select {
	case err = <-copied:
		return err
	case <-ctx.Done():
		return ctx.Err() // the copy may hang; the process ends
	}
}

// writeFile makes a file that only its owner can read, and that is there only
// when it is whole and on disk.
func writeFile(name string, write func(io.Writer) error) (err error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--output %s: it is there, and no regular file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // mode 0600
	if err != nil {
		return fmt.Errorf("--output %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // a second time, where it was closed
			_ = os.Remove(f.Name()) // gone, where it was renamed
		}
	}()
	buffered := bufio.NewWriterSize(f, writeBuffer)
	if err = write(buffered); err != nil {
		return err
	}
	for _, step := range []func() error{
		buffered.Flush, f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), name) },
		func() error { return durable.SyncDirectory(filepath.Dir(name)) },
	} {
		if err = step(); err != nil {
			return fmt.Errorf("--output %s: %w", name, err)
		}
	}
	return nil
}

// input is what a command reads.
type input struct {
	file string // "": standard input
	what string // "export"
	// irregular is the error where the file is no regular one; nil: it may be a pipe, which is not
	// checked.
	irregular error
	check     func(io.Reader, *reporter) error // reads a file to its end
}

// open opens the stream. A file is checked first. size is 0 where it is not known.
func (call *Call) open(ctx context.Context, from input) (in io.ReadCloser, size int64, err error) {
	if from.file == "" {
		if ask.IsTerminal(call.Stdin) {
			return nil, 0, fmt.Errorf("there is no %s on standard input: give --input FILE, or a pipe", from.what)
		}
		return io.NopCloser(interruptible(ctx, call.Stdin)), 0, nil
	}
	file, err := os.Open(from.file)
	if err != nil {
		return nil, 0, fmt.Errorf("--input: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.Mode().IsRegular():
		err = call.check(ctx, file, info.Size(), from.check)
	case from.irregular != nil:
		err = fmt.Errorf("--input %s: %w", from.file, from.irregular)
	default:
		return readCloser{interruptible(ctx, file), file}, 0, nil
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// check has a file read to its end before anything is written, and goes back to its beginning.
func (call *Call) check(ctx context.Context, file *os.File, size int64, check func(io.Reader, *reporter) error) error {
	show := call.reporter("checking", size)
	err := check(file, show)
	show.End()
	if ctx.Err() != nil {
		return errors.New("stopped: nothing was written")
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("--input %s: %w (nothing was written)", file.Name(), err)
	}
	return nil
}

// interruptible returns a reader over r whose reads end with ctx. The read of r that was
// waiting then stays behind; its data is dropped.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { _ = to.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(to, r)
		_ = to.CloseWithError(err)
	}()
	return from
}
