package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Server is one redis-server. Its methods are for one goroutine at a time, but
// for Addr, URL and Fresh.
type Server struct {
	dir   string
	port  int
	lines []string // of its configuration, after the usual ones
	args  []string // after the configuration file
	bus   int      // the port of a Cluster node for the others
	tls   *TLS     // nil: plain
	user  string   // with which Do speaks
	pass  string

	process *process // nil while it does not run
	count   atomic.Int64
}

// Start starts a server that keeps every write (appendonly yes, appendfsync
// always) and nothing else. The options are lines of its configuration, which win
// over these: "requirepass secret", "maxmemory 20mb". It ends with the test.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	need(t)
	s := &Server{dir: t.TempDir(), lines: options}
	s.start(t)
	t.Cleanup(s.end)
	return s
}

// StartTLS is Start with a server that speaks nothing but TLS and asks for the
// certificate of its clients, unless an option says "tls-auth-clients no".
func StartTLS(t testing.TB, files *TLS, options ...string) *Server {
	t.Helper()
	need(t)
	s := &Server{dir: t.TempDir(), lines: options, tls: files}
	s.start(t)
	t.Cleanup(s.end)
	return s
}

// need skips or fails the test where the program is missing.
func need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CARILLON_REQUIRE_REDIS") == "1" {
		t.Fatalf("%s is not installed, and CARILLON_REQUIRE_REDIS=1 requires it", program)
	}
	t.Skipf(
		"NOT TESTED: %s is not installed; install it, or set CARILLON_REQUIRE_REDIS=1 to make this a failure",
		program,
	)
}

// Addr is the host:port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address as a store's URL, without user and password.
func (s *Server) URL() string {
	if s.tls != nil {
		return "rediss://" + s.Addr() + "/0?ca=" + s.tls.CA
	}
	return "redis://" + s.Addr() + "/0"
}

// Fresh is URL with a prefix that no other call has given.
func (s *Server) Fresh() string {
	separator := "?"
	if s.tls != nil {
		separator = "&"
	}
	return fmt.Sprintf("%s%sprefix=test%d", s.URL(), separator, s.count.Add(1))
}

// Dir is where the server's files are.
func (s *Server) Dir() string { return s.dir }

// PID is the id of the server's process.
func (s *Server) PID() int { return s.process.cmd.Process.Pid }

// Kill ends the server without warning.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.process.kill()
	s.process = nil
}

// Stop ends the server in good order.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.process.stop()
	s.process = nil
}

// Restart starts the server again on its port and with its files, after Kill or
// Stop.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if s.process != nil {
		t.Fatal("the server is still running")
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Empty removes the server's data, between Kill or Stop and Restart.
func (s *Server) Empty(t testing.TB) {
	t.Helper()
	if s.process != nil {
		t.Fatal("the server is still running")
	}
	for _, name := range []string{"appendonlydir", "dump.rdb"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Pause stops the server's process, which keeps its connections and answers
// nothing, until Resume.
func (s *Server) Pause(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Resume lets the server's process go on.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Set changes the configuration of the running server.
func (s *Server) Set(t testing.TB, name, value string) {
	t.Helper()
	s.Do(t, "CONFIG", "SET", name, value)
}

// As makes Do speak as the user from now on; "" is the default user.
func (s *Server) As(user, password string) { s.user, s.pass = user, password }

// Do sends one command and returns the answer: string, int64, nil or []any. An
// error fails the test.
func (s *Server) Do(t testing.TB, args ...string) any {
	t.Helper()
	answer, err := s.do(args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args[:min(2, len(args))], " "), err)
	}
	return answer
}

// Try is Do that returns the error.
func (s *Server) Try(args ...string) (any, error) { return s.do(args...) }

func (s *Server) do(args ...string) (any, error) {
	c, err := dial(s.Addr(), s.tls)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if s.pass != "" {
		auth := []string{"AUTH", s.pass}
		if s.user != "" {
			auth = []string{"AUTH", s.user, s.pass}
		}
		if _, err := c.do(auth...); err != nil {
			return nil, err
		}
	}
	return c.do(args...)
}

// start finds a port and starts the server on it.
func (s *Server) start(t testing.TB) {
	t.Helper()
	var errs []error
	for range startTries {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s.port = port
		if err := s.run(); err == nil {
			return
		} else {
			errs = append(errs, err)
		}
	}
	t.Fatal(errors.Join(errs...))
}

// run writes the configuration and starts the process; when it returns nil the
// server answers.
func (s *Server) run() error {
	config := filepath.Join(s.dir, "redis.conf")
	// Sentinel and Cluster nodes write into their files, which must outlive a restart.
	if _, err := os.Stat(config); err != nil || s.args == nil {
		if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
			return err
		}
	}
	p, err := launch(s.dir, append([]string{config}, s.args...)...)
	if err != nil {
		return err
	}
	if err := s.await(p); err != nil {
		p.kill()
		return fmt.Errorf("%s did not start: %w\n%s", program, err, p.output())
	}
	s.process = p
	return nil
}

func (s *Server) config() string {
	port, tlsPort := s.port, 0
	if s.tls != nil {
		port, tlsPort = 0, s.port
	}
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(port),
		"dir " + s.dir,
		"daemonize no",
		"protected-mode no",
	}
	if s.args == nil {
		lines = append(lines, `save ""`, "appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0",
			"repl-diskless-sync-delay 0")
	}
	if tlsPort != 0 {
		lines = append(lines, "tls-port "+strconv.Itoa(tlsPort), "tls-ca-cert-file "+s.tls.CA,
			"tls-cert-file "+s.tls.Cert, "tls-key-file "+s.tls.Key)
	}
	return strings.Join(append(lines, s.lines...), "\n") + "\n"
}

// await waits until the server answers for itself: an error is an answer, but
// for the one that says that it still loads its data.
func (s *Server) await(p *process) error {
	deadline := time.Now().Add(startTime)
	for {
		err := s.ping()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-p.ended:
			return errors.New("it ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) ping() error {
	c, err := dial(s.Addr(), s.tls)
	if err != nil {
		return err
	}
	defer c.close()
	var refusal Error
	switch _, err = c.do("PING"); {
	case errors.As(err, &refusal) && !strings.HasPrefix(string(refusal), "LOADING"):
		return nil
	default:
		return err
	}
}

// end kills the server, if it runs.
func (s *Server) end() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// inStep reports whether a replica has what its primary has.
func inStep(replica *Server) error {
	answer, err := replica.do("INFO", "replication")
	if err == nil && !strings.Contains(fmt.Sprint(answer), "master_link_status:up") {
		err = fmt.Errorf("the replica is not in step")
	}
	return err
}

// addrs are those of the servers, with commas between.
func addrs(servers []*Server) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return strings.Join(list, ",")
}

// FreePort returns a port that nothing listens on, and that no other call returns, here or in
// another test process on this machine, before this process ends: a UDP socket, which is
// never read, holds the number. The port is below those that systems give to connections and
// to port 0 (32768 and up), and above those of well-known services, which a hub does not call.
func FreePort() (port int, err error) {
	for range 100 {
		port = 28_000 + rand.IntN(4_000)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		held, failed := net.ListenPacket("udp4", address)
		if failed != nil {
			err = failed
			continue
		}
		l, failed := net.Listen("tcp", address)
		if failed != nil {
			err = errors.Join(failed, held.Close())
			continue
		}
		ports.Lock()
		ports.held = append(ports.held, held)
		ports.Unlock()
		return port, l.Close()
	}
	return 0, err
}

// ports keeps what FreePort holds from being collected, which would close it.
var ports struct {
	sync.Mutex
	held []net.PacketConn
}
