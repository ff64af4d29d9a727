package program_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

// A public listener answers to its configured hosts, and to those that no page can point at it. Any
// other name may be a stranger's, whose page reads a private hub by it.
func TestAnswerTo(t *testing.T) {
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n":                                   200,
		"GET / HTTP/1.1\r\nHost: hub.example:8443\r\n\r\n":                              200,
		"GET / HTTP/1.1\r\nHost: HUB.Example.\r\n\r\n":                                  200,
		"GET / HTTP/1.1\r\nHost: inside\r\n\r\n":                                        200,
		"GET / HTTP/1.1\r\nHost: 10.1.2.3:8080\r\n\r\n":                                 200,
		"GET / HTTP/1.1\r\nHost: [fd00::1]:8080\r\n\r\n":                                200,
		"GET / HTTP/1.1\r\nHost: [fd00::1]\r\n\r\n":                                     200,
		"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n":                                200,
		"GET / HTTP/1.1\r\nHost: a.localhost\r\n\r\n":                                   200,
		"GET / HTTP/1.0\r\n\r\n":                                                        200,
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                  421,
		"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n":            421,
		"GET / HTTP/1.1\r\nHost: evil.hub.example\r\n\r\n":                              421,
		"GET / HTTP/1.1\r\nHost: hub.example.evil.example\r\n\r\n":                      421,
		"GET / HTTP/1.1\r\nHost: 10.1.2.3.evil.example:80\r\n\r\n":                      421,
		"GET / HTTP/1.1\r\nHost: hub.example:80:80\r\n\r\n":                             421,
		"GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n":                                    421,
		"GET http://evil.example/ HTTP/1.1\r\nHost: hub.example\r\n\r\n":                421,
		"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: hub.example\r\n\r\n": 421,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, program.Endpoint{}, 10, 10, hello, answerTo("https://Hub.example./websub/", "inside"))
			conn := s.dial("203.0.113.1")
			defer conn.Close()
			resp, text := tell(t, conn, request)
			if resp.StatusCode != want {
				t.Errorf("%q: %d; want %d", request, resp.StatusCode, want)
			}
			if want == 421 && !strings.Contains(text, "--host") {
				t.Errorf("%q: it is not said what to do: %q", request, text)
			}
			conn.Close()
			s.stop()
		})
	}
}

// A name that a proxy changed is said once in a while, however many requests have it.
func TestForeignNamesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, program.Endpoint{}, 100, 100, hello, answerTo("http://hub.example/"))
		for range 3 {
			for range 5 {
				conn := s.dial("203.0.113.1")
				tell(t, conn, "GET / HTTP/1.1\r\nHost: upstream\r\nConnection: close\r\n\r\n")
				conn.Close()
			}
			time.Sleep(10 * time.Minute)
		}
		s.stop()
		if got := strings.Count(s.log.String(), "host=upstream"); got != 3 {
			t.Errorf("%d lines in half an hour; want 3\n%s", got, s.log)
		}
	})
}

// Names are accepted as operators write them; anything else is refused.
func TestHostName(t *testing.T) {
	for text, want := range map[string]string{
		"Hub.Example.": "hub.example", "hub-1": "hub-1", "my_hub": "my_hub", "10.0.0.1": "10.0.0.1",
		"": "", "https://hub.example": "", "hub.example/websub": "", "höb.example": "", "*.example": "", "a b": "", ".example": "",
	} {
		var h program.HostName
		if err := h.UnmarshalText([]byte(text)); string(h) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, h, err, want)
		}
	}
}

func answerTo(rawURL string, others ...program.HostName) func(*program.Listener, *slog.Logger) {
	return func(l *program.Listener, logger *slog.Logger) { l.AnswerTo(rawURL, others, logger) }
}

// tell sends a request and returns the answer.
func tell(t *testing.T, conn net.Conn, request string) (*http.Response, string) {
	t.Helper()
	go io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp, string(text)
}
