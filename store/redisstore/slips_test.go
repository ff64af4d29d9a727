package redisstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"carillon/internal/redistest"
	"carillon/store/redisstore"
	"carillon/subscription"
)

// A URL that means another kind of server than the one that is there ends a start with
// what to write.
func TestReadyRefusesSlips(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLS(t)
	plain, secure, open := shared.Server(t), redistest.StartTLS(t, files), redistest.StartTLS(t, files, "tls-auth-clients no")
	old := redistest.StartTLS(t, files, "tls-protocols TLSv1.2") // which asks for certificates within the handshake
	noTLS := plain.Addr() + " does not speak TLS: begin the URL with redis in the place of rediss"
	for url, want := range map[string]string{
		"rediss://" + plain.Addr():                                 noTLS,
		"rediss+cluster://" + plain.Addr():                         noTLS,
		"rediss+sentinel://" + plain.Addr() + "/mymaster":          noTLS,
		"redis://" + secure.Addr():                                 secure.Addr() + " speaks TLS: begin the URL with rediss",
		"redis://" + open.Addr():                                   open.Addr() + " speaks TLS",
		"redis+cluster://" + secure.Addr():                         secure.Addr() + " speaks TLS",
		"redis+sentinel://" + secure.Addr() + "/mymaster":          secure.Addr() + " speaks TLS",
		"redis+sentinel://" + plain.Addr() + "/mymaster":           "is Redis itself and no Sentinel",
		"rediss://" + old.Addr() + "?ca=" + files.CA:               "cert= and key= name this client's certificate",
		"redis+sentinel://u:hunter2@" + plain.Addr() + "/mymaster": "26379",
	} {
		t.Run(strings.ReplaceAll(url, "/", " "), func(t *testing.T) {
			wantRefused(t, redisstore.Config{URL: url}, want)
		})
	}
}

// A server that hangs may answer later: the handshake without an answer is tried again, and reported.
func TestReadyTellsOfAHandshake(t *testing.T) {
	t.Parallel()
	files := redistest.NewTLS(t)
	server := redistest.StartTLS(t, files)
	server.Pause(t)
	defer server.Resume(t)
	err := openOnly(t, redisstore.Config{URL: "rediss://" + server.Addr() + "?ca=" + files.CA}).Ready(t.Context())
	if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "TLS handshake with "+server.Addr()) {
		t.Errorf("got error %v, want one that tells of the handshake, and %v", err, subscription.ErrUnavailable)
	}
}

// A server that went away is not taken for one with TLS.
func TestReadyAfterAKill(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.server.Kill(t)
	wantError(t, w.db.Ready(t.Context()), subscription.ErrUnavailable)
	w.server.Restart(t)
	ready(t, w.db)
}

// A program that embeds the store can distinguish this refusal from others.
func TestReadyNamesThePolicy(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	w.server.Set(t, "maxmemory-policy", "volatile-ttl")
	err := w.db.Ready(t.Context())
	if evicts, ok := errors.AsType[redisstore.EvictionError](err); !ok || evicts.Policy != "volatile-ttl" {
		t.Errorf("got error %v, want an EvictionError", err)
	}
}

// However a URL gets into a log, it is there, and its password is not.
func TestURLInLogs(t *testing.T) {
	t.Parallel()
	u, err := redisstore.ParseURL("redis://hub:hunter2@h:1/2")
	must(t, err)
	const want = "redis://hub:xxxxx@h:1/2"
	var text, object bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "store", u)
	slog.New(slog.NewJSONHandler(&object, nil)).Info("x", "store", u)
	encoded, err := json.Marshal(map[string]any{"store": u})
	must(t, err)
	for name, got := range map[string]string{
		"text": text.String(), "object": object.String(), "encoded": string(encoded),
		"%v": fmt.Sprint(u), "%+v": fmt.Sprintf("%+v", u), "%#v": fmt.Sprintf("%#v", u),
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s is not %s", name, got, want)
		}
	}
}

// A server that closes a connection at once gives a reason: the error has it.
func TestReadyTellsWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	t.Run("protected mode", func(t *testing.T) {
		// Redis is in protected mode for other machines only: this is what it does then.
		const denied = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user."
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "-"+denied+"\r\n")
				_ = conn.Close()
			}
		}()
		for range 20 { // which of write and close comes first is not always the same
			wantRefused(t, redisstore.Config{URL: "redis://" + l.Addr().String()}, denied)
		}
	})
	t.Run("too many clients", func(t *testing.T) {
		server := redistest.Start(t, "maxclients 1")
		conn, err := net.Dial("tcp", server.Addr())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "PING\r\n")
		must(t, err)
		_, err = conn.Read(make([]byte, 7))
		must(t, err)
		err = openOnly(t, redisstore.Config{URL: server.URL()}).Ready(t.Context())
		if !errors.Is(err, subscription.ErrUnavailable) || !strings.Contains(err.Error(), "max number of clients reached") {
			t.Errorf("got error %v, want one with what the server said", err)
		}
	})
}
