package h1

import (
	"bufio"
	"errors"
	"math"
	"net"
	"net/http"
)

// maxInterim is how many interim answers (1xx) a server may send first.
const maxInterim = 5

var errInterim = errors.New("too many interim answers")

// posted is the request that answers are to.
var posted = &http.Request{Method: http.MethodPost}

// oddReader reads what was read before, then on from the connection, and of heads
// not more than is left to them.
type oddReader struct {
	have []byte
	nc   net.Conn
	left int64
}

func (r *oddReader) Read(b []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, ErrHeaderTooLarge
	}
	if int64(len(b)) > r.left {
		b = b[:r.left]
	}
	if len(r.have) > 0 {
		n = copy(b, r.have)
		r.have = r.have[n:]
	} else {
		n, err = r.nc.Read(b)
	}
	r.left -= int64(n)
	return n, err
}

// readFinal reads the head of the final answer. The rest has no bound here.
func (r *oddReader) readFinal(buf *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(buf, req)
		switch {
		case err != nil && r.left <= 0:
			return nil, ErrHeaderTooLarge
		case err != nil:
			return nil, err
		case resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols:
			r.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errInterim
}
