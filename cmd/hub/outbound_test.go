package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A proxy, or a port, that the hub cannot do with is a refusal to start, in one line that
// does not tell a password.
func TestRefusesProxies(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	const filters = "--proxy-filters"
	for name, tt := range map[string]struct {
		env  []string // a variable and its value
		args []string
		want string
	}{
		"nobody filters":      {nil, []string{"--proxy=http://user:s3cret@proxy.example:3128"}, "--proxy-filters"},
		"filters without one": {nil, []string{filters}, "--proxy, which is missing"},
		"not a URL":           {nil, []string{filters, "--proxy=http://user:s3%cret@proxy.example"}, "--proxy: it is not a URL"},
		"another kind": {nil, []string{
			filters, "--proxy=socks5://user:s3cret@proxy.example",
		}, "--proxy: it must begin with http:// or https://"},
		"by the variable":     {[]string{"HUB_PROXY", "ftp://user:s3cret@proxy.example"}, []string{filters}, "--proxy: it must begin with http"},
		"none in environment": {nil, []string{filters, "--proxy=environment"}, "--proxy: neither HTTPS_PROXY nor HTTP_PROXY is set"},
		"environment unasked": {[]string{"HTTP_PROXY", "http://user:s3cret@proxy.example"}, []string{"--proxy=environment"}, "--proxy-filters"},
		"two in environment": {
			[]string{"HTTP_PROXY", "http://a:s3cret@one.example", "HTTPS_PROXY", "http://a:s3cret@two.example"},
			[]string{filters, "--proxy=environment"},
			"name different proxies",
		},
		"not a port":           {nil, []string{"--allow-port=http"}, "allow-port"},
		"no port":              {nil, []string{"--allow-port=0"}, "allow-port"},
		"ports backwards":      {nil, []string{"--allow-port=9000-8000"}, "allow-port"},
		"beyond what is there": {nil, []string{"--allow-port=8000-70000"}, "allow-port"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; i+1 < len(tt.env); i += 2 {
				t.Setenv(tt.env[i], tt.env[i+1])
			}
			var stdout, stderr bytes.Buffer
			args := append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir()}, tt.args...)
			code := run(context.Background(), args, &stdout, &stderr)
			line := stderr.String()
			if code == 0 || stdout.Len() > 0 || strings.Count(line, "\n") != 1 || !strings.Contains(line, tt.want) {
				t.Errorf("status %d, stderr %q; want one line that names %q", code, line, tt.want)
			}
			if strings.Contains(line, "cret") {
				t.Errorf("the line tells the password: %s", line)
			}
		})
	}
}

// A hub by a proxy works, shows no password, and ignores the proxy of the environment unless asked.
func TestProxyIsToldOf(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unasked":     {nil, "the environment names a proxy, which is not heeded"},
		"environment": {[]string{"--proxy", "environment", "--proxy-filters"}, "proxy=http://proxy.example:3128"},
		"flag":        {[]string{"--proxy", "https://user:s3cret@other.example", "--proxy-filters"}, "proxy=https://other.example:443"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://user:s3cret@proxy.example:3128")
			t.Setenv("HTTPS_PROXY", "")
			t.Setenv("https_proxy", "")
			t.Setenv("http_proxy", "")
			hosts := newNetwork(t)
			hub := hosts.startHub(t, append(tt.args, "--allow-port", "25", "--allow-port", "6379-6380")...)
			hub.log.await(t, tt.want)
			// The flags have come where they are heeded: the one is open, the other not.
			if status := hub.ping(t, "http://host.invalid:6380/"); status != "204" {
				t.Errorf("an allowed port: %s", status)
			}
			if status := hub.ping(t, "http://host.invalid:5432/"); status != "403" {
				t.Errorf("a port of others: %s", status)
			}
			if text := hub.log.text(); strings.Contains(text, "s3cret") {
				t.Errorf("the log tells the password: %s", text)
			}
		})
	}
}

// A proxy that is dead is a warning of /readyz, when nothing was reached by it.
func TestADeadProxyIsToldOf(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir(),
		"--proxy", "http://user:s3cret@"+ln.Addr().String(), "--proxy-filters")
	for _, host := range []string{"one", "two", "three"} {
		resp, err := http.PostForm(p.ready["url"], url.Values{
			"hub.mode": {"subscribe"}, "hub.topic": {"http://" + host + ".example.org/"}, "hub.callback": {"http://callback.example.org/" + host},
		})
		if status, text, err := answer(resp, err); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %q %v", status, text, err)
		}
	}
	eventually(t, "the warning", func() bool {
		_, text := look(p.ready["admin"], "/readyz")
		return strings.Contains(text, "warning: the last ") && strings.Contains(text, ln.Addr().String()) && !strings.Contains(text, "s3cret")
	})
}

// Callbacks are offered the key exchanges that --key-exchange says, the post-quantum one by itself.
func TestKeyExchange(t *testing.T) {
	t.Parallel()
	classic := []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	for name, tt := range map[string]struct {
		args  []string
		wants func(offered []tls.CurveID) bool
	}{
		"by itself": {nil, func(o []tls.CurveID) bool { return o[0] == tls.X25519MLKEM768 && slices.Contains(o, tls.X25519) }},
		"hybrid":    {[]string{"--key-exchange=hybrid"}, func(o []tls.CurveID) bool { return o[0] == tls.X25519MLKEM768 }},
		"classic":   {[]string{"--key-exchange=classic"}, func(o []tls.CurveID) bool { return slices.Equal(o, classic) }},
	} {
		t.Run(name, func(t *testing.T) {
			offers := make(chan []tls.CurveID, 16)
			callbacks := httptest.NewUnstartedServer(http.NotFoundHandler())
			callbacks.Config.ErrorLog = log.New(io.Discard, "", 0) // its certificate is not trusted
			callbacks.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				select {
				case offers <- slices.Clone(hello.SupportedCurves):
				default:
				}
				return nil, nil
			}}
			callbacks.StartTLS()
			t.Cleanup(callbacks.Close)
			s := newSink(t)
			p := startHub(t, append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:" + t.TempDir()}, tt.args...)...)
			s.setHub(p.ready["url"], 0)
			if status, text, err := subscribe(p.ready["url"], s.topicURL("keys"), callbacks.URL, nil); err != nil || status != http.StatusAccepted {
				t.Fatalf("subscribing: %d %q %v", status, text, err)
			}
			if offered := <-offers; len(offered) == 0 || !tt.wants(offered) {
				t.Errorf("offered are %v", offered)
			}
		})
	}
}
