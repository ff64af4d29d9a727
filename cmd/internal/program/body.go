package program

import (
	"context"
	"io"
	"net"
	"net/http"
)

// connKey is where a request's context has its connection, as net/http passes it no
// other way.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if ours, ok := counted(c); ok {
		return context.WithValue(ctx, connKey{}, ours)
	}
	return ctx
}

// noteBodies reports to the limiter which connections are in the middle of a body: from the
// beginning of the handler to the body's end, also while net/http reads what the handler
// has left of it. net/http reads on after the end, to learn whether the client is there, which is no
// silence.
func noteBodies(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.ContentLength != 0 {
			c.inBody.Store(true)
			// A copy: net/http goes by its own Body when it decides whether to read the rest.
			noted := *r
			noted.Body = &notedBody{ReadCloser: r.Body, conn: c}
			r = &noted
		}
		handler.ServeHTTP(w, r)
	})
}

// notedBody records the end of a body.
type notedBody struct {
	io.ReadCloser
	conn *conn
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.conn.limiter.mu.Lock()
		defer b.conn.limiter.mu.Unlock()
		b.conn.inBody.Store(false)
		b.conn.limiter.heard(b.conn)
	}
	return n, err
}
