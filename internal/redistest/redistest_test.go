package redistest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/internal/redistest"
)

func TestServerKeepsWhatItAnswered(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "key", "value")
	pid := s.PID()
	s.Kill(t)
	if _, err := s.Try("GET", "key"); err == nil {
		t.Fatal("a server that was killed answered")
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "key"); got != "value" || s.PID() == pid {
		t.Fatalf("after the restart the key is %v in process %d; it was in %d", got, s.PID(), pid)
	}
	s.Stop(t)
	s.Empty(t)
	s.Restart(t)
	if got := s.Do(t, "GET", "key"); got != nil {
		t.Fatalf("the server was emptied, and has %v", got)
	}
}

func TestServerAnswersOfEveryKind(t *testing.T) {
	s := redistest.Start(t, "maxmemory-policy allkeys-lru")
	s.Set(t, "appendfsync", "everysec")
	got := s.Do(t, "CONFIG", "GET", "maxmemory-policy").([]any)
	if len(got) != 2 || got[1] != "allkeys-lru" {
		t.Errorf("the policy is %v", got)
	}
	if n := s.Do(t, "RPUSH", "list", "a", "b"); n != int64(2) {
		t.Errorf("RPUSH answered %v", n)
	}
	var refusal redistest.Error
	if _, err := s.Try("GET", "list"); !errors.As(err, &refusal) || !strings.HasPrefix(string(refusal), "WRONGTYPE") {
		t.Errorf("the wrong type is %v", err)
	}
}

func TestServerByTLS(t *testing.T) {
	s := redistest.StartTLS(t, redistest.NewTLS(t))
	if got := s.Do(t, "PING"); got != "PONG" {
		t.Errorf("PING answered %v", got)
	}
}

func TestPrefixesAreNewEachTime(t *testing.T) {
	shared := redistest.NewShared()
	defer shared.Stop()
	a := shared.Server(t)
	if b := shared.Server(t); a != b {
		t.Error("the shared server was started twice")
	}
	if first, second := a.Fresh(), a.Fresh(); first == second {
		t.Errorf("%s came twice", first)
	}
	shared.Stop()
	if _, err := a.Try("PING"); err == nil {
		t.Error("the server was stopped, and answered")
	}
	if _, err := os.Stat(a.Dir()); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	f := redistest.Sentinel(t, 1)
	if f.Primary(t) != f.Nodes[0] {
		t.Fatal("the first node is not the primary")
	}
	f.Nodes[0].Kill(t)
	redistest.Eventually(t, func() error {
		if f.Primary(t) == f.Nodes[0] {
			return errors.New("the Sentinels have elected no other primary")
		}
		return nil
	})
	f.Nodes[0].Restart(t)
}

func TestClusterIsWhole(t *testing.T) {
	nodes := redistest.Cluster(t)
	for _, node := range nodes {
		if _, err := os.Stat(filepath.Join(node.Dir(), "nodes.conf")); err != nil {
			t.Error(err)
		}
	}
	var refusal redistest.Error
	moved := 0
	for _, node := range nodes {
		if _, err := node.Try("SET", "key", "value"); errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "MOVED") {
			moved++
		}
	}
	if moved != len(nodes)-1 {
		t.Errorf("%d of %d nodes sent the key elsewhere, want all but one", moved, len(nodes))
	}
}

// Of 300 in 4,000 some would be the same by chance.
func TestFreePortIsGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}
	for range 300 {
		port, err := redistest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
	}
}
