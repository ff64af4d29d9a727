package h1_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// An answer that comes while a large body is still written is read beside that.
func TestAnswerBesideLargeBody(t *testing.T) {
	ways(t, func(t *testing.T, w way) {
		s := w.serve(t, func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				head := ""
				for !strings.HasSuffix(head, "\r\n\r\n") {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					head += line
				}
				go func() {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8000\r\n\r\n"+strings.Repeat("x", 8000))
				}()
				if _, err := io.CopyN(io.Discard, r, large); err != nil {
					return
				}
			}
		})
		client := newClient(t, w.cfg)
		for range 10 {
			equal(t, "status", s.status(t, client, strings.Repeat("x", large)), 200)
		}
	})
}

const large = 256 << 10
