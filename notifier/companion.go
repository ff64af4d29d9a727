package notifier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"carillon/payload"
)

// Companion makes further documents of one set, such as dumps. Its methods may be called from any
// goroutine, and must not wait.
type Companion interface {
	// Routes returns the companion's addresses. It is called once, by Public and Intake.
	Routes() []Route

	// Capabilities returns the entries that the Capability List has for it at this moment.
	Capabilities() []payload.Capability

	// Arrived reports that the set has new events.
	Arrived(events int)

	// ListsChanged reports that a Change List was closed, or that old ones were dropped.
	ListsChanged()
}

// Route is one address of a Companion.
type Route struct {
	// Path is the address below /NAME/, or below /sets/NAME/ of the intake listener. A path with a
	// final slash matches everything below it.
	Path string
	// Kind is the document's name in the metrics, such as "resource_dump". Empty: the requests
	// are not counted there.
	Kind string
	// Intake puts the address on the intake listener instead of the public one.
	Intake bool
	// Methods are those allowed besides GET and HEAD.
	Methods []string
	// Serve answers the request. An error becomes an answer as Refuse says; any other is a 500.
	Serve func(http.ResponseWriter, *http.Request) error
}

// Attach adds a companion to a set, and archives what it has if it is an Archiver. It must be called before Public, Intake and Run.
func (n *Notifier) Attach(set string, c Companion) error {
	ch := n.byName[set]
	if ch == nil {
		return fmt.Errorf("%q is no set here", shown(set))
	}
	ch.companions = append(ch.companions, c)
	if archiver, is := c.(Archiver); is && ch.archives != nil {
		return ch.archives.attach(archiver)
	}
	return nil
}

// Refuse returns an error that answers a request with the status, the header fields and the text.
// The text is for the client: it must show nothing from inside.
func Refuse(status int, text string, header http.Header) error {
	return &httpError{status: status, text: text, header: header}
}

// PublicURL returns the URI of a path below the base.
func (n *Notifier) PublicURL(path string) string { return n.uris.of(path) }

// Now returns the time by the clock that dates events (package wallclock).
func (n *Notifier) Now() time.Time { return n.clock.Now() }

// Snapshot returns the resources of a set at one moment, as ResourceStore.Snapshot does.
func (n *Notifier) Snapshot(ctx context.Context, set string) (time.Time, iter.Seq2[payload.Entry, error], error) {
	return n.cfg.Journal.Snapshot(ctx, set, n.clock.Now())
}

// Entries is a document whose entries are written while it is sent.
type Entries struct {
	Head payload.Head
	// Version differs where the entries differ: with the head it makes the entity tag.
	Version string
	Count   int
	// Append appends the next entry. It is called Count times at most, and only if the document is
	// sent.
	Append func(dst []byte) ([]byte, error)
}

// ServeEntries answers with a document as ServeReader does.
func (n *Notifier) ServeEntries(
	w http.ResponseWriter, r *http.Request, kind string, modified time.Time, lasting bool, e Entries,
) error {
	head, err := payload.AppendHead(nil, e.Head)
	if err != nil {
		return err
	}
	return n.docs.serveDocument(w, r, document{
		kind: documentKind(kind), tag: tagFrom(head, e.Version), modified: modified, lasting: lasting,
		write: pieces(head, e.Count, false, func(dst []byte, _ int) ([]byte, error) {
			return e.Append(dst)
		}),
	})
}

// ServeReader answers with a document: packed where the client takes that, 304 where the client has
// it. tag is the entity tag without its quotes; modified is when the document became what it is.
// lasting: it never changes. open is called where the document is sent; its error is returned.
func (n *Notifier) ServeReader(
	w http.ResponseWriter, r *http.Request, kind, tag string, modified time.Time, lasting bool,
	open func() (io.ReadCloser, error),
) error {
	return n.docs.serveDocument(w, r, document{
		kind: documentKind(kind), tag: tag, modified: modified, lasting: lasting,
		write: func(_ context.Context, emit func([]byte) error) error {
			from, err := open()
			if err != nil {
				return err
			}
			defer from.Close() // it was only read
			for piece := make([]byte, pieceBytes); ; {
				had, err := from.Read(piece)
				if had > 0 {
					if err := emit(piece[:had]); err != nil {
						return err
					}
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
			}
		},
	})
}

// routeCompanions adds the addresses of one listener.
func (ch *channel) routeCompanions(router *mux.Router, prefix string, intake bool) {
	for _, c := range ch.companions {
		for _, route := range c.Routes() {
			if route.Intake != intake {
				continue
			}
			path := prefix + ch.set + "/" + route.Path
			handler := ch.n.docs.companion(route)
			if strings.HasSuffix(path, "/") {
				router.PathPrefix(path).Handler(handler)
			} else {
				router.Path(path).Handler(handler)
			}
		}
	}
}

func (s *documents) companion(route Route) http.Handler {
	allowed := append([]string{http.MethodGet, http.MethodHead}, route.Methods...)
	serve := func(w http.ResponseWriter, r *http.Request) error {
		if err := only(r, allowed...); err != nil {
			return err
		}
		return route.Serve(w, r)
	}
	if route.Kind != "" && len(route.Methods) == 0 {
		return s.readDocument(documentKind(route.Kind), serve)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// listsChanged calls the companions.
func (ch *channel) listsChanged() {
	for _, c := range ch.companions {
		c.ListsChanged()
	}
}

// maxRanges bounds the ranges of one request. Each costs a header of its own in the answer, so
// thousands of small ranges would cost many times the file.
const maxRanges = 8

// SendContent answers with a file: ranges, conditions, and as much time as the client needs. The
// header must have the Content-Type, and should have an ETag. A request with more than a few
// ranges gets the whole file (RFC 9110 §14.2 allows that).
func SendContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) {
	// A large file may take longer than an answer may otherwise. A client that does not read at
	// all is given up by the connection itself.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // not every writer has deadlines
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // another request got its slot, and the deadline was for that
	}
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", modified, content)
}

// SendFile is SendContent within a slot of Config.Files, as Serving has.
func (n *Notifier) SendFile(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) error {
	one, r, err := n.files.Enter(clientOf(r.RemoteAddr), w, r)
	if err != nil {
		return err
	}
	defer one.Leave()
	SendContent(w, r, modified, content)
	return nil
}

// Serving gives the answers of h, which sends files, a place each, as documents have: so many at a
// time as Config.Files says, and the slowest is cut off for another. The request's context ends
// then.
func (n *Notifier) Serving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one, r, err := n.files.Enter(clientOf(r.RemoteAddr), w, r)
		if err != nil {
			n.docs.fail(w, r, err)
			return
		}
		defer one.Leave()
		h.ServeHTTP(w, r)
	})
}
