package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// MasterName is what the Sentinels of a Failover call the primary.
const MasterName = "carillon-test"

// failoverAfter is how long the Sentinels wait for a primary before they
// elect another.
const failoverAfter = time.Second

// Failover is a primary with replicas, and the Sentinels that watch it.
type Failover struct {
	// Nodes are the servers; the first is the primary at the beginning.
	Nodes     Nodes
	Sentinels []*Server
}

// Sentinel starts a primary, as Start does, so many replicas, and three Sentinels.
// When it returns, the replicas are in step and the Sentinels know of them and of
// each other. The options are lines for the configuration of every server.
func Sentinel(t testing.TB, replicas int, options ...string) *Failover {
	t.Helper()
	primary := Start(t, options...)
	f := &Failover{Nodes: Nodes{primary}}
	for range replicas {
		f.Nodes = append(
			f.Nodes, Start(t, append(slices.Clone(options), "replicaof 127.0.0.1 "+strconv.Itoa(primary.port))...),
		)
	}
	const sentinels = 3
	for range sentinels {
		s := &Server{dir: t.TempDir(), args: []string{"--sentinel"}, lines: []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, primary.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, failoverAfter.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s 5000", MasterName),
		}}
		s.start(t)
		t.Cleanup(s.end)
		f.Sentinels = append(f.Sentinels, s)
	}
	for _, s := range f.Sentinels {
		Eventually(t, func() error { return knows(s, replicas, sentinels-1) })
	}
	for _, node := range f.Nodes[1:] {
		Eventually(t, func() error { return inStep(node) })
	}
	return f
}

// knows reports whether a Sentinel knows of so many replicas and other Sentinels.
func knows(sentinel *Server, replicas, others int) error {
	answer, err := sentinel.do("SENTINEL", "MASTER", MasterName)
	if err != nil {
		return err
	}
	fields, _ := answer.([]any)
	facts := make(map[string]string)
	for pair := range slices.Chunk(fields, 2) {
		facts[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
	}
	if facts["num-slaves"] != strconv.Itoa(replicas) || facts["num-other-sentinels"] != strconv.Itoa(others) {
		return fmt.Errorf(
			"the Sentinel knows of %s replicas and %s others", facts["num-slaves"], facts["num-other-sentinels"],
		)
	}
	return nil
}

// URL is the address as a store's URL.
func (f *Failover) URL() string {
	return fmt.Sprintf("redis+sentinel://%s/%s/0", addrs(f.Sentinels), MasterName)
}

// Primary returns the server that the Sentinels say is the primary.
func (f *Failover) Primary(t testing.TB) *Server {
	t.Helper()
	answer := f.Sentinels[0].Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
	for _, node := range f.Nodes {
		if pair, ok := answer.([]any); ok && len(pair) == 2 && pair[1] == strconv.Itoa(node.port) {
			return node
		}
	}
	t.Fatalf("the Sentinels name a primary that is none of the nodes: %v", answer)
	return nil
}
