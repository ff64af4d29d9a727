package program

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// HostName is the name of a host, without a port, in small letters and without a dot at its end.
type HostName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HostName) UnmarshalText(text []byte) error {
	name := strings.TrimSuffix(strings.ToLower(string(text)), ".")
	if name == "" || strings.Trim(
		name, "abcdefghijklmnopqrstuvwxyz0123456789.-_",
	) != "" || strings.HasPrefix(name, ".") {
		return fmt.Errorf(
			"%q is no name of a host: give it without scheme and port, as hub.example.org, and an international one as xn--…",
			text,
		)
	}
	*h = HostName(name)
	return nil
}

// plainHost returns the host of a Host header without its port, brackets and final dot, in
// small letters.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// ownName reports whether a host, as plainHost returns it, is one that no web page can have lead
// elsewhere: an address or localhost. HTTP/1.0 may have none.
func ownName(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// tellForeignEvery is the least time between two log lines about names that are not ours.
const tellForeignEvery = 10 * time.Minute

// names are the hosts that a public listener answers to.
type names struct {
	known  map[string]bool
	logger *slog.Logger
	told   atomic.Int64 // when the latest log line was written, nanoseconds
}

// AnswerTo has the listener answer to the host of rawURL, to the others, to addresses and to
// localhost; a request for any other host gets 421. Without it a web page could have a name of
// its own lead to a listener in a private network, and read what is there with its visitor's
// browser (DNS rebinding). Ports are not compared, as proxies change them. It is called before Serve.
func (l *Listener) AnswerTo(rawURL string, others []HostName, logger *slog.Logger) {
	n := &names{known: map[string]bool{}, logger: logger}
	if u, err := url.Parse(rawURL); err == nil {
		n.known[plainHost(u.Host)] = true
	}
	for _, other := range others {
		n.known[string(other)] = true
	}
	l.names = n
}

// only refuses requests for other hosts.
func (n *names) only(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := plainHost(r.Host); !n.known[host] && !ownName(host) {
			n.tell(r)
			turnAway(w, http.StatusMisdirectedRequest, "This server does not answer to the host that the request names. "+
				"Ask by the name that is in its URL. If a proxy is between: it must pass the Host header on "+
				"(nginx: proxy_set_header Host $host), or its operator starts the server with --host NAME.")
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// tell logs a refusal now and then: any client can cause one.
func (n *names) tell(r *http.Request) {
	now, told := time.Now().UnixNano(), n.told.Load()
	if told != 0 && now-told < int64(tellForeignEvery) || !n.told.CompareAndSwap(told, now) {
		return
	}
	n.logger.Warn("a request for a host that is not ours was answered 421; if the name is yours, give --host, or have the proxy pass the Host header on",
		"host", r.Host, "client", r.RemoteAddr)
}
