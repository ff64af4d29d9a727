package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const (
	// primaries is how many a Cluster has: the fewest that can vote.
	primaries = 3
	slots     = 16384
)

// Nodes is a Cluster without replicas.
type Nodes []*Server

// Cluster starts three primaries that share the slots, each as Start does. When it
// returns they agree on who has which. The options are lines for the configuration of every
// server.
func Cluster(t testing.TB, options ...string) Nodes {
	t.Helper()
	var nodes Nodes
	for i := range primaries {
		bus, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		node := Start(t, append([]string{
			"cluster-enabled yes",
			"cluster-node-timeout 5000",
			"cluster-port " + strconv.Itoa(bus),
		}, options...)...)
		node.bus = bus
		node.Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1))
		nodes = append(nodes, node)
	}
	for i, node := range nodes {
		node.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for _, node := range nodes[1:] {
		nodes[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port), strconv.Itoa(node.bus))
	}
	for _, node := range nodes {
		Eventually(t, func() error { return whole(node) })
	}
	return nodes
}

// whole says whether a node sees all others and all slots.
func whole(node *Server) error {
	answer, err := node.do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	text := fmt.Sprint(answer)
	if !strings.Contains(text, "cluster_state:ok") || !strings.Contains(text, "cluster_size:"+strconv.Itoa(primaries)) {
		return fmt.Errorf("the Cluster is not whole:\n%s", text)
	}
	return nil
}

// URL is the address as a store's URL.
func (n Nodes) URL() string { return "redis+cluster://" + addrs(n) }
