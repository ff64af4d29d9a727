package program_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

// askWith sends a request with the fields, while it reads the answer, and returns its
// status; 0 without one.
func askWith(conn net.Conn, fields ...string) int {
	go io.WriteString(
		conn,
		"POST / HTTP/1.1\r\nContent-Length: 0\r\n"+strings.Join(append([]string{"X-Test: 1"}, fields...), "\r\n")+hostOf(fields)+"\r\n\r\n",
	)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// hostOf is the Host field, if the fields lack one.
func hostOf(fields []string) string {
	for _, f := range fields {
		if strings.HasPrefix(f, "Host:") {
			return ""
		}
	}
	return "\r\nHost: 127.0.0.1:8081"
}

// atLoopback is a connection that came to a loopback address.
type atLoopback struct{ net.Conn }

func (atLoopback) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081} }

// A request that a foreign page makes a browser send is refused on a listener for operators.
func TestOwnOnly(t *testing.T) {
	for name, test := range map[string]struct {
		fields   []string
		network  bool // it comes to an address of a network
		operator int  // the answer of a listener for operators
	}{
		"by address":              {operator: 200},
		"by IPv6":                 {fields: []string{"Host: [::1]:8081"}, operator: 200},
		"by localhost":            {fields: []string{"Host: LocalHost:8081"}, operator: 200},
		"below localhost":         {fields: []string{"Host: hub.localhost"}, operator: 200},
		"by another name":         {fields: []string{"Host: evil.example:8081"}, operator: 421},
		"a name like an address":  {fields: []string{"Host: 127.0.0.1.evil.example"}, operator: 421},
		"a name on a network":     {fields: []string{"Host: hub-1:8081"}, network: true, operator: 200},
		"from another page":       {fields: []string{"Origin: https://evil.example"}, operator: 403},
		"said by the browser":     {fields: []string{"Sec-Fetch-Site: cross-site"}, operator: 403},
		"from a page of its own":  {fields: []string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:8081"}, operator: 200},
		"from another on network": {fields: []string{"Host: hub-1:8081", "Origin: https://evil.example"}, network: true, operator: 403},
	} {
		t.Run(name, func(t *testing.T) {
			for _, operators := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, program.Endpoint{Operators: operators}, 10, 10, hello)
					client, server := net.Pipe()
					defer client.Close()
					if !test.network {
						server = atLoopback{server}
					}
					s.conns <- server
					want := 200
					if operators {
						want = test.operator
					}
					if got := askWith(client, test.fields...); got != want {
						t.Errorf("for operators %t: %d; want %d", operators, got, want)
					}
					client.Close()
					s.stop()
				})
			}
		})
	}
}

// A panic of a handler is an error in the log, and what clients do wrong is not.
func TestWhatIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, program.Endpoint{}, 10, 10, func(http.ResponseWriter, *http.Request) { panic("a mistake") })
		conn := s.dial("203.0.113.1")
		defer conn.Close()
		if got := ask(conn, "/"); got != 0 {
			t.Errorf("status %d", got)
		}
		time.Sleep(time.Second)
		if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "a mistake") {
			t.Errorf("logged %q", log)
		}
		s.stop()
	})
}
