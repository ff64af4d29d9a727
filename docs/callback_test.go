package docs_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// languages are the commands that start the callback of destination.md.
var languages = map[string]struct {
	file    string
	start   []string
	build   []string // before that
	compare string   // what compares signatures in constant time, which no answer shows
}{
	"go":     {"callback.go", []string{"./callback"}, []string{"go", "build", "-o", "callback", "callback.go"}, "hmac.Equal("},
	"python": {"callback.py", []string{"python3", "callback.py"}, nil, "hmac.compare_digest("},
	"node":   {"callback.mjs", []string{"node", "callback.mjs"}, nil, "timingSafeEqual("},
}

// TestCallbacks runs the callback of destination.md against a hub, and against forged requests.
// CARILLON_SAMPLES names the languages to try. The module tools sets it, and has their
// interpreters.
func TestCallbacks(t *testing.T) {
	t.Parallel() // most of it is waiting
	chosen := os.Getenv("CARILLON_SAMPLES")
	if chosen == "" {
		chosen = "go"
	}
	for language := range strings.SplitSeq(chosen, ",") {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, language)
			s.subscription()
			s.forgeries()
			s.wrongAddress()
			s.restart()
			s.end()
		})
	}
}

const secret = "nobody-guesses-this"

// stand is a hub and a callback.
type stand struct {
	*walk
	b             block // says where the callback stands
	line          string
	hub, callback string // their addresses
	id            string // of what was received
	body          []byte
}

func newStand(t *testing.T, language string) *stand {
	_, blocks := readPage(t, "docs/destination.md")
	kind, known := languages[language]
	i := slices.IndexFunc(blocks, func(b block) bool { name, _ := b.directive("sample"); return known && name == kind.file })
	if i < 0 {
		t.Fatalf("docs/destination.md has no callback in %s", language)
	}
	w := newWalk(t, blocks)
	s := &stand{walk: w, b: blocks[i], hub: w.here("http://127.0.0.1:8080/websub/"), callback: w.here("http://127.0.0.1:8000/callback")}
	text := strings.Join(s.b.lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(w.dir, kind.file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, kind.compare) {
		t.Errorf("the callback in %s compares signatures without %s", language, kind.compare)
	}
	if kind.build != nil {
		build := exec.CommandContext(w.ctx, kind.build[0], kind.build[1:]...)
		build.Dir = w.dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	s.line = w.here("CALLBACK_PORT=8000 CALLBACK_TOPIC="+s.hub+" CALLBACK_SECRET="+secret+" ") + strings.Join(kind.start, " ")
	w.start(s.b, "hub", "hub --retry-first 100ms").next(s.b, 1)
	s.begin()
	return s
}

// begin starts the callback on its port.
func (s *stand) begin() {
	s.t.Helper()
	s.says(s.start(s.b, "callback", s.line), "callback ready at "+s.callback)
}

// says checks the callback's next line.
func (s *stand) says(r *running, line string) {
	s.t.Helper()
	if got := r.next(s.b, 1)[0]; got != line {
		s.t.Errorf("it says %q; want %q", got, line)
	}
}

// subscription checks that the callback confirms, and stores publications byte for byte.
func (s *stand) subscription() {
	s.post(s.hub, url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {s.hub}, "hub.callback": {s.callback}, "hub.secret": {secret}, "hub.lease_seconds": {"3600"},
	}.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, http.StatusAccepted)
	r := s.find(s.b, "callback")
	s.says(r, "confirmed: subscribe "+s.hub+" for 3600 s")
	for i := range 1 << 16 {
		s.body = append(s.body, byte(i), byte(i>>8), '\r', '\n')
	}
	for _, body := range [][]byte{[]byte("Hello, town!"), s.body} {
		answer := s.post(s.hub, string(body), http.Header{
			"Content-Type": {"application/octet-stream"}, "Link": {fmt.Sprintf("<%s>; rel=self, <%s>; rel=hub", s.hub, s.hub)},
		}, http.StatusOK)
		s.id = strings.TrimSpace(answer)
		s.says(r, fmt.Sprintf("received: %s, %d bytes", s.id, len(body)))
		kept, err := os.ReadFile(filepath.Join(s.dir, "inbox", s.id))
		if err != nil || !bytes.Equal(kept, body) {
			s.t.Errorf("it has kept %d bytes of %d (%v)", len(kept), len(body), err)
		}
	}
}

// forgeries checks that deliveries without a valid signature are rejected, and known ones dropped.
func (s *stand) forgeries() {
	body, r := s.body, s.find(s.b, "callback")
	digest := sign(sha256.New, secret, body)
	for _, signature := range []string{
		"", "sha256", "sha256=", "sha256=" + digest[:62], "sha256=" + digest + "00", "sha256=" + strings.Repeat("0", 64),
		"sha256=" + sign(sha256.New, "another", body), "md5=" + digest, "SHA256=" + digest, "sha512=" + digest, "sha256=z" + digest[1:], "sha256=é" + digest[2:],
		"sha256=" + sign(sha256.New, secret, body[1:]), "constructor=" + digest,
	} {
		header := http.Header{"X-Hub-Notification-Id": {"forged"}, "X-Hub-Signature": {signature}}
		if signature == "" {
			header.Del("X-Hub-Signature")
		}
		s.post(s.callback, string(body), header, http.StatusForbidden)
		s.says(r, "refused: the signature is not good")
	}
	s.duplicate()
	for name, method := range map[string]func() hash.Hash{"sha1": sha1.New, "sha384": sha512.New384, "sha512": sha512.New} {
		s.post(s.callback, string(body), http.Header{
			"X-Hub-Notification-Id": {"by-" + name}, "X-Hub-Signature": {name + "=" + sign(method, secret, body)},
		}, http.StatusOK)
		s.says(r, fmt.Sprintf("received: by-%s, %d bytes", name, len(body)))
	}
	s.otherHubs(digest)
	kept, err := os.ReadDir(filepath.Join(s.dir, "inbox"))
	if err != nil || len(kept) != 6 {
		s.t.Errorf("it has kept %v (%v); want six", kept, err)
	}
}

// otherHubs checks that a delivery without a usable ID is identified by its content.
func (s *stand) otherHubs(digest string) {
	name := fmt.Sprintf("sha256-%x", sha256.Sum256(s.body))
	says := fmt.Sprintf("received: %s, %d bytes", name, len(s.body))
	for _, id := range []string{"none", "", "../forged", "a/b", ".", strings.Repeat("a", 101)} {
		header := http.Header{"X-Hub-Notification-Id": {id}, "X-Hub-Signature": {"sha256=" + digest}}
		if id == "none" {
			header.Del("X-Hub-Notification-Id")
		}
		s.post(s.callback, string(s.body), header, http.StatusOK)
		s.says(s.find(s.b, "callback"), says)
		says = "had it: " + name
	}
}

func (s *stand) duplicate() {
	s.t.Helper()
	s.post(s.callback, string(s.body), http.Header{
		"X-Hub-Notification-Id": {s.id}, "X-Hub-Signature": {"sha256=" + sign(sha256.New, secret, s.body)},
	}, http.StatusOK)
	s.says(s.find(s.b, "callback"), "had it: "+s.id)
}

// wrongAddress checks that the callback confirms only its own requests.
func (s *stand) wrongAddress() {
	ask := func(path string, q url.Values, want int) {
		s.t.Helper()
		resp, err := http.Get(strings.Replace(s.callback, "/callback", path, 1) + "?" + q.Encode())
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want || want == http.StatusNotFound && bytes.Contains(body, []byte("echo")) {
			s.t.Errorf("%s %v: %d %q (%v); want %d", path, q, resp.StatusCode, body, err, want)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" && path == "/callback" {
			s.t.Errorf("%s %v: the answer may be taken for a page", path, q)
		}
	}
	good := func(change, to string) url.Values {
		q := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {s.hub}, "hub.challenge": {"echo"}, "hub.lease_seconds": {"60"}}
		q.Set(change, to)
		return q
	}
	ask("/callback", good("hub.topic", s.hub+"x"), http.StatusNotFound)
	ask("/callback", good("hub.mode", "unsubscribe"), http.StatusNotFound)
	ask("/callback", good("hub.challenge", "<script>echo"), http.StatusNotFound)
	ask("/callback", good("hub.challenge", ""), http.StatusNotFound)
	ask("/elsewhere", good("hub.lease_seconds", "1"), http.StatusNotFound)
	ask("/callback", good("hub.mode", "denied"), http.StatusOK)
	s.says(s.find(s.b, "callback"), "denied: "+s.hub+": ")
	s.post(strings.Replace(s.callback, "/callback", "/elsewhere", 1), "x", nil, http.StatusNotFound)
}

// restart checks that the callback still knows its deliveries.
func (s *stand) restart() {
	s.stop(s.find(s.b, "callback"))
	s.begin()
	s.duplicate()
}

// end checks that the callback confirms its end only if it asked for it.
func (s *stand) end() {
	s.stop(s.find(s.b, "callback"))
	s.line = "CALLBACK_WANTS=unsubscribe " + s.line
	s.begin()
	s.post(s.hub, url.Values{"hub.mode": {"unsubscribe"}, "hub.topic": {s.hub}, "hub.callback": {s.callback}}.Encode(),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, http.StatusAccepted)
	s.says(s.find(s.b, "callback"), "confirmed: unsubscribe "+s.hub)
	s.stop(s.find(s.b, "callback"))
	s.stop(s.find(s.b, "hub"))
}

func sign(method func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(method, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *stand) post(address, body string, header http.Header, want int) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = header
	if header == nil {
		req.Header = http.Header{}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		s.t.Errorf("POST %s with %v: %d %q (%v); want %d", address, header, resp.StatusCode, answer, err, want)
	}
	return string(answer)
}
