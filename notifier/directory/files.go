package directory

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"carillon/notifier"
)

// Files serves the files that are, or will soon be, resources of the set, at the path of Config.Base:
// GET and HEAD, ranges and conditions. Each has its announced type, Link rel=resourcesync (core
// §6.3.3) and, while it is unchanged since its announcement, its hash as a strong ETag. There are no
// lists of directories; a file that is no resource is 404.
func (d *Directory) Files() http.Handler {
	base, err := url.Parse(d.cfg.Base)
	if err != nil { // cannot be: it was validated
		return http.NotFoundHandler()
	}
	prefix := base.EscapedPath()
	files := &server{&d.cfg, d.names, d.log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			answer(w, http.StatusMethodNotAllowed, "This path takes GET, HEAD only.")
			return
		}
		escaped, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		rel, valid := unescapePath(escaped)
		if !ok || !valid || len(d.names.locOf(rel)) > maxLoc {
			answer(w, http.StatusNotFound, "There is nothing at this path.")
			return
		}
		files.serve(w, r, rel)
	})
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that has gone needs no answer
}

// server serves the files of a directory.
type server struct {
	cfg   *Config
	names names
	log   *slog.Logger
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, rel string) {
	f, info, err := s.openFile(rel)
	if errors.Is(err, fs.ErrNotExist) {
		answer(w, http.StatusNotFound, "There is nothing at this path.")
		return
	}
	if err != nil {
		s.log.Warn("a file cannot be served", "file", cut(rel), "error", err)
		w.Header().Set("Retry-After", "60")
		answer(w, http.StatusServiceUnavailable, "The file cannot be read at the moment. Try again.")
		return
	}
	defer f.Close()
	head, err := sniff(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.log.Warn("a file cannot be served", "file", cut(rel), "error", err)
		answer(w, http.StatusInternalServerError, "The file cannot be read.")
		return
	}
	header := w.Header()
	header.Set("Content-Type", mediaType(rel, head))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("ETag", s.tag(r, rel, info))
	if s.cfg.CapabilityList != "" {
		header.Set("Link", "<"+s.cfg.CapabilityList+`>; rel="resourcesync"`)
	}
	notifier.SendContent(w, r, info.ModTime(), f)
}

// openFile opens a regular file: fs.ErrNotExist for anything else.
func (s *server) openFile(rel string) (*os.File, fs.FileInfo, error) {
	root, _, err := openRoot(s.cfg.Dir)
	if err != nil {
		return nil, nil, errors.New("the directory cannot be opened")
	}
	defer root.Close()
	return openIn(root, rel)
}

// openIn is openFile in a directory that is open.
func openIn(root *os.Root, rel string) (*os.File, fs.FileInfo, error) {
	info, err := lstat(root, rel)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = fs.ErrNotExist // it was replaced that moment, maybe by a link
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, now, nil
}

// tag is the hash of a file that is as it was announced; else a weak tag of its size
// and time, which hold for no ranges.
func (s *server) tag(r *http.Request, rel string, info fs.FileInfo) string {
	had, known, err := s.cfg.State.Resource(r.Context(), s.cfg.Set, s.names.locOf(rel))
	if err == nil && known && same(&had, info) && had.Hash != "" {
		return strconv.Quote(had.Hash)
	}
	return `W/"` + strconv.FormatInt(info.Size(), 36) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 36) + `"`
}
