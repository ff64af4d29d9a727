package program_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/program"
)

func TestTLSRefusals(t *testing.T) {
	until := time.Now().Add(365 * 24 * time.Hour)
	good, other := newCertificate(t, until), newCertificate(t, until)
	files := good.put(t, t.TempDir())
	mixed := certificate{good.cert, other.key}.put(t, t.TempDir())
	garbage := certificate{[]byte("not PEM"), good.key}.put(t, t.TempDir())
	for name, test := range map[string]struct {
		tls  program.TLS
		want []string
	}{
		"no key":         {program.TLS{Cert: files.Cert}, []string{"--admin-tls-cert", "without --admin-tls-key"}},
		"no certificate": {program.TLS{Key: files.Key}, []string{"--admin-tls-key", "without --admin-tls-cert"}},
		"no such file":   {program.TLS{Cert: files.Cert, Key: files.Key + "x"}, []string{"--admin-tls-key " + files.Key + "x", "no such file"}},
		"a directory":    {program.TLS{Cert: filepath.Dir(files.Cert), Key: files.Key}, []string{"--admin-tls-cert", "not a file"}},
		"of two kinds":   {mixed, []string{"--admin-tls-key", "does not match"}},
		"no PEM":         {garbage, []string{"--admin-tls-cert " + garbage.Cert, "PEM"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := program.Listen(t.Context(), program.Endpoint{
				Flag: "admin", Address: "127.0.0.1:0", TLS: test.tls, Logger: slog.New(slog.DiscardHandler),
			})
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v; want it to say %q", err, want)
				}
			}
		})
	}
}

// A certificate that does not fit the public URL is a warning, at the start and later.
func TestTLSForAnotherURL(t *testing.T) {
	files := newCertificate(t, time.Now().Add(365*24*time.Hour)).put(t, t.TempDir())
	if err := os.Chmod(files.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"https://localhost/websub/":     "",
		"HTTPS://localhost:1/":          "",
		"https://other.example/websub/": "not for the host of --url",
		"http://127.0.0.1/":             "and --url http://127.0.0.1/ does not",
	} {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		ln, err := program.Listen(t.Context(), program.Endpoint{Flag: "listen", Address: "127.0.0.1:0", TLS: files, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		ln.ToldAs(url, logger)
		warnings := strings.Join(ln.Warnings(), "|")
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		for where, told := range map[string]string{"log": log.String(), "warnings": warnings} {
			if !strings.Contains(told, want) || (want == "") != (told == "") {
				t.Errorf("%s: %s: %q; want %q", url, where, told, want)
			}
		}
	}
}

// A certificate that works, but not for long or not as it should, is a warning.
func TestTLSWarnsAtTheStart(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		age, left time.Duration
		mode      os.FileMode
		want      string // part of the log; empty without one
	}{
		"good":           {75 * day, 15 * day, 0o640, ""},
		"expires soon":   {77 * day, 13 * day, 0o600, "expires at"},
		"a short life":   {3 * day, 3 * day, 0o600, ""},
		"its end":        {5 * day, 2 * day, 0o600, "expires at"},
		"expired":        {5 * day, -time.Minute, 0o600, "expired at"},
		"open to others": {75 * day, 15 * day, 0o644, "chmod o-r"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			files := newCertificateFrom(t, time.Now().Add(-test.age), time.Now().Add(test.left)).put(t, t.TempDir())
			if err := os.Chmod(files.Key, test.mode); err != nil {
				t.Fatal(err)
			}
			ln, err := program.Listen(t.Context(), program.Endpoint{
				Flag: "listen", Address: "127.0.0.1:0", TLS: files, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			if !strings.Contains(log.String(), test.want) || test.want == "" && log.Len() > 0 {
				t.Errorf("logged %q; want %q", &log, test.want)
			}
			if strings.HasPrefix(test.want, "expire") != (len(ln.Warnings()) == 1) {
				t.Errorf("warnings: %q", ln.Warnings())
			}
			if url, err := ln.BaseURL("/"); err != nil || !strings.HasPrefix(url, "https://") {
				t.Errorf("BaseURL = %q, %v", url, err)
			}
		})
	}
}

// handshake returns the certificate that a client is shown.
func (s *serving) handshake(t *testing.T) *x509.Certificate {
	t.Helper()
	conn := tls.Client(s.dial("203.0.113.1"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	defer conn.Close()
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("ALPN chose %q", got)
	}
	return conn.ConnectionState().PeerCertificates[0]
}

// Each step changes the files, and says what a client is shown when the server has
// looked at them, and how many warnings there are then.
func TestTLSReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(365 * 24 * time.Hour)
		var all [4]certificate
		for i := range all {
			all[i] = newCertificate(t, until.Add(time.Duration(i)*time.Hour))
		}
		expired := newCertificate(t, time.Now().Add(-time.Minute))

		// As Kubernetes has it: the files are links through a link that is swapped.
		root := t.TempDir()
		for i, dir := range []string{"one", "two"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
				t.Fatal(err)
			}
			all[i].put(t, filepath.Join(root, dir))
		}
		swap := func(to string) {
			if err := os.Symlink(to, filepath.Join(root, "fresh")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(root, "fresh"), filepath.Join(root, "data")); err != nil {
				t.Fatal(err)
			}
		}
		swap("one")
		files := program.TLS{Cert: filepath.Join(root, "data", "tls.crt"), Key: filepath.Join(root, "data", "tls.key")}
		s := serve(t, program.Endpoint{TLS: files}, 100, 100, hello)
		defer s.stop()

		for _, step := range []struct {
			name     string
			change   func()
			shown    int // of all
			warnings int
		}{
			{"nothing has changed", func() {}, 0, 0},
			{"the link is swapped", func() { swap("two") }, 1, 0},
			{"the certificate before its key", func() { putFile(t, files.Cert, all[2].cert) }, 1, 1},
			{"and still", func() {}, 1, 1},
			{"the key follows", func() { putFile(t, files.Key, all[2].key) }, 2, 0},
			{"half a file", func() { putFile(t, files.Cert, all[3].cert[:100]) }, 2, 1},
			{"and back again", func() { putFile(t, files.Cert, all[2].cert) }, 2, 0},
			{"an old one", func() { expired.put(t, filepath.Dir(files.Cert)) }, 2, 1},
			{"no files", func() { os.Remove(files.Cert) }, 2, 1},
			{"new files", func() { all[3].put(t, filepath.Dir(files.Cert)) }, 3, 0},
		} {
			time.Sleep(program.LookAtFilesEvery)
			before := s.handshake(t) // the look of this moment
			step.change()
			if got := s.handshake(t); !got.Equal(before) {
				t.Errorf("%s: the files are looked at more often than once in %s", step.name, program.LookAtFilesEvery)
			}
			time.Sleep(program.LookAtFilesEvery)
			if got := s.handshake(t); !got.NotAfter.Equal(until.Add(time.Duration(step.shown) * time.Hour).Truncate(time.Second)) {
				t.Errorf("%s: shown is the certificate until %s", step.name, got.NotAfter)
			}
			if got := s.listener.Warnings(); len(got) != step.warnings {
				t.Errorf("%s: warnings %q; want %d", step.name, got, step.warnings)
			}
		}
		if n := strings.Count(s.log.String(), "cannot be taken"); n != 4 {
			t.Errorf("%d lines tell of the 4 times that files could not be taken:\n%s", n, s.log)
		}
		if n := strings.Count(s.log.String(), "the certificate has changed"); n != 3 {
			t.Errorf("%d lines tell of 3 changes:\n%s", n, s.log)
		}
	})
}

// Plain HTTP to the port gets an answer that says so, and old TLS is refused. Neither fills the log.
func TestTLSTurnsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newCertificate(t, time.Now().Add(365*24*time.Hour)).put(t, t.TempDir())
		s := serve(t, program.Endpoint{TLS: files}, 100, 100, hello)
		defer s.stop()
		plain := s.dial("203.0.113.1")
		defer plain.Close()
		go io.WriteString(plain, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(plain), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS server") {
			t.Errorf("plain HTTP: %d %q", resp.StatusCode, text)
		}
		old := tls.Client(s.dial("203.0.113.1"), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
		defer old.Close()
		if err := old.HandshakeContext(t.Context()); err == nil {
			t.Error("TLS 1.1 was taken")
		}
		synctest.Wait()
		if s.log.String() != "" {
			t.Errorf("logged: %s", s.log)
		}
	})
}

// A client on the same machine takes the certificate in the file, whatever the
// address, and no other.
func TestTrusting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(365 * 24 * time.Hour)
		files := newCertificate(t, until).put(t, t.TempDir())
		other := newCertificate(t, until).put(t, t.TempDir())
		s := serve(t, program.Endpoint{TLS: files}, 100, 100, hello)
		defer s.stop()
		for file, ok := range map[string]bool{files.Cert: true, other.Cert: false} {
			config, err := program.Trusting(file)
			if err != nil {
				t.Fatal(err)
			}
			config.ServerName = "127.0.0.1"
			conn := tls.Client(s.dial("127.0.0.1"), config)
			if err := conn.HandshakeContext(t.Context()); (err == nil) != ok {
				t.Errorf("handshake: %v; want it good: %t", err, ok)
			}
			conn.Close()
		}
		if _, err := program.Trusting(files.Key); err == nil {
			t.Error("a key is no certificate")
		}
	})
}

// A reload takes files with other names, and none that cannot be used.
func TestRenew(t *testing.T) {
	first, second := newCertificate(t, time.Now().Add(time.Hour)), newCertificate(t, time.Now().Add(2*time.Hour))
	s := serve(t, program.Endpoint{TLS: first.put(t, t.TempDir())}, 10, 10, hello)
	defer s.stop()
	old := s.listener.Until()
	broken := first.put(t, t.TempDir())
	putFile(t, broken.Key, second.key)
	for name, files := range map[string]program.TLS{
		"a key of another": broken,
		"no key":           {Cert: broken.Cert},
		"no such file":     {Cert: broken.Cert, Key: broken.Key + "x"},
		"expired":          newCertificate(t, time.Now().Add(-time.Minute)).put(t, t.TempDir()),
	} {
		var c program.Change
		if err := c.Renew(s.listener, files, ""); err == nil || s.listener.Until() != old {
			t.Errorf("%s: taken, error %v", name, err)
		}
	}
	var c program.Change
	if err := c.Renew(s.listener, program.TLS{}, "x-"); err != nil || strings.Join(c.Restart, " ") != "x-tls-cert x-tls-key" {
		t.Errorf("no TLS any more: %v, restart for %v", err, c.Restart)
	}
	files := second.put(t, t.TempDir())
	if err := c.Renew(s.listener, files, ""); err != nil || s.listener.Until() != old {
		t.Errorf("before it was taken: %v, until %s", err, s.listener.Until())
	}
	for _, take := range c.Take {
		if take != nil {
			take()
		}
	}
	if got := s.listener.Until(); !got.After(old) || !strings.Contains(s.log.String(), files.Cert) {
		t.Errorf("afterwards the certificate is good until %s, and the log says\n%s", got, s.log)
	}
}
