package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// disturbance is one way in which an exchange goes wrong.
type disturbance struct {
	kind string
	// refuses: the callback is not asked, and the sender learns of no success.
	refuses bool
	// loses: the callback's answer may not count for the sender. Where it is false
	// the answer arrives whole.
	loses bool
	do    func(e *exchange)
}

// interims is how many interim answers come before the real one.
const interims = 40

func disturbances() []disturbance {
	all := []disturbance{
		{"reset before reading", true, false, func(e *exchange) { e.hijack(reset) }},
		{"reset after reading", false, true, func(e *exchange) { e.hijack(reset) }},
		{"half-closed without an answer", false, true, func(e *exchange) { e.hijack(halfClose) }},
		{"garbage", false, true, (*exchange).garbage},
		{"closed in the head", false, true, func(e *exchange) { e.cut(e.head("")) }},
		{"closed in the body", false, true, func(e *exchange) { e.raw(e.head("1000"), []byte("a part")) }},
		{"body longer than its length", false, true, func(e *exchange) {
			e.raw(e.head("2"), []byte("much more than that"))
		}},
		{"a length that is none", false, true, func(e *exchange) { e.raw(e.head("-7"), e.answer.Body) }},
		{"interim answers", false, true, func(e *exchange) {
			e.raw(bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"), interims), e.whole())
		}},
		{"closed after the answer", false, false, func(e *exchange) { e.raw(e.whole()) }},
		{"delayed", false, false, func(e *exchange) {
			wait(e.r.Context(), e.moment(1))
			plain(e.w, e.answer)
		}},
		{"trickled", false, false, (*exchange).trickle},
	}
	for _, status := range []int{301, 307, 400, 404, 429, 500, 503} {
		all = append(
			all, disturbance{"status " + strconv.Itoa(status), true, false, func(e *exchange) { e.refuse(status) }},
		)
	}
	return all
}

// exchange is one request that is answered otherwise than its callback wants.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	by     *rand.Rand
	slow   time.Duration
	answer Answer
}

// plain sends an answer as it is.
func plain(w http.ResponseWriter, a Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // who hung up asks again
}

// refuse answers with a status that is no success, with what belongs to it.
func (e *exchange) refuse(status int) {
	switch {
	case status < 400:
		e.w.Header().Set("Location", e.r.URL.Path+"/elsewhere")
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && e.by.IntN(2) == 0:
		e.w.Header().Set("Retry-After", "1")
	}
	e.w.WriteHeader(status)
}

// hijack takes the connection over.
func (e *exchange) hijack(use func(net.Conn)) {
	conn, _, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		panic(fmt.Sprintf("faults: the server gives no connections away: %v", err))
	}
	use(conn)
}

// halfClose says nothing more and listens on until the peer has had enough.
func halfClose(conn net.Conn) {
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, conn)
	}
}

// raw sends bytes and closes the connection.
func (e *exchange) raw(parts ...[]byte) {
	e.hijack(func(conn net.Conn) {
		defer conn.Close()
		_, _ = (*net.Buffers)(&parts).WriteTo(conn)
	})
}

// head is the head of the answer with a Content-Length.
func (e *exchange) head(length string) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n", e.answer.Status, http.StatusText(e.answer.Status))
	for name, values := range e.answer.Header {
		for _, value := range values {
			b = fmt.Appendf(b, "%s: %s\r\n", name, value)
		}
	}
	return fmt.Appendf(b, "Content-Length: %s\r\n\r\n", length)
}

// whole is the answer as it should be.
func (e *exchange) whole() []byte {
	return append(e.head(strconv.Itoa(len(e.answer.Body))), e.answer.Body...)
}

// cut sends a part of it.
func (e *exchange) cut(b []byte) { e.raw(b[:1+e.by.IntN(len(b)-1)]) }

// garbage sends what is no answer at all.
func (e *exchange) garbage() {
	b := make([]byte, 1+e.by.IntN(2000))
	for i := range b {
		b[i] = byte(e.by.Uint32())
	}
	e.raw(b)
}

// trickle sends the answer in a few pieces, with a pause before each.
func (e *exchange) trickle() {
	const pieces = 8
	whole := e.whole()
	size := (len(whole) + pieces - 1) / pieces
	e.hijack(func(conn net.Conn) {
		defer conn.Close()
		for len(whole) > 0 {
			wait(e.r.Context(), e.moment(pieces))
			piece := whole[:min(size, len(whole))]
			if whole = whole[len(piece):]; !sent(conn, piece) {
				return
			}
		}
	})
}

func sent(conn net.Conn, b []byte) bool {
	_, err := conn.Write(b)
	return err == nil
}

// moment is at most the n-th part of what is slow.
func (e *exchange) moment(n int) time.Duration {
	return time.Duration(e.by.Int64N(int64(e.slow)/int64(n)) + 1)
}
