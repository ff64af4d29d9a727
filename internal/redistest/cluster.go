package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// primaries is how many a Cluster has: the fewest that can vote.
	primaries = 3
	slots     = 16384
)

// Nodes are servers of a Cluster.
type Nodes []*Server

// Cluster starts three primaries that share the slots, each as Start does. When it
// returns they agree on who has which. The options are lines for the configuration of every
// server.
func Cluster(t testing.TB, options ...string) Nodes {
	t.Helper()
	var nodes Nodes
	for i := range primaries {
		node := clusterNode(t, options...)
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

// ReplicatedCluster starts a Cluster as Cluster does, with a replica of each primary: replicas[i]
// is of primaries[i]. When it returns every replica is in step, and all nodes know of it.
func ReplicatedCluster(t testing.TB, options ...string) (primaries, replicas Nodes) {
	t.Helper()
	primaries = Cluster(t, options...)
	for range primaries {
		node := clusterNode(t, options...)
		primaries[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port), strconv.Itoa(node.bus))
		replicas = append(replicas, node)
	}
	all := slices.Concat(primaries, replicas)
	for _, node := range all {
		Eventually(t, func() error { return counts(node, "cluster_known_nodes:"+strconv.Itoa(len(all))) })
	}
	for i, node := range replicas {
		node.Do(t, "CLUSTER", "REPLICATE", fmt.Sprint(primaries[i].Do(t, "CLUSTER", "MYID")))
	}
	for _, node := range replicas {
		Eventually(t, func() error { return inStep(node) })
	}
	for _, node := range all {
		Eventually(t, func() error { return pairs(node, len(replicas)) })
	}
	return primaries, replicas
}

// clusterNode starts a server that knows of no other node yet.
func clusterNode(t testing.TB, options ...string) *Server {
	t.Helper()
	bus, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	node := Start(t, append([]string{
		"cluster-enabled yes",
		"cluster-node-timeout 5000",
		"cluster-port " + strconv.Itoa(bus),
	}, options...)...)
	node.bus = bus
	return node
}

// pairs reports whether a node sees so many primaries with a replica.
func pairs(node *Server, want int) error {
	answer, err := node.do("CLUSTER", "SLOTS")
	if err != nil {
		return err
	}
	ranges, _ := answer.([]any)
	with := 0
	for _, r := range ranges {
		// From, to, the primary, and then the replicas.
		if fields, _ := r.([]any); len(fields) > 3 {
			with++
		}
	}
	if with != want {
		return fmt.Errorf("%d of %d primaries have a replica: %v", with, want, answer)
	}
	return nil
}

// counts reports whether CLUSTER INFO of a node has the line.
func counts(node *Server, line string) error {
	answer, err := node.do("CLUSTER", "INFO")
	if err == nil && !strings.Contains(fmt.Sprint(answer), line+"\r\n") {
		err = fmt.Errorf("the node does not say %s:\n%s", line, answer)
	}
	return err
}

// Owner returns which of the primaries, as they were at the start, a key belongs to.
func (n Nodes) Owner(t testing.TB, key string) int {
	t.Helper()
	slot, _ := n[len(n)-1].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
	for i := range primaries {
		if int(slot) < (i+1)*slots/primaries {
			return i
		}
	}
	t.Fatalf("%q has no slot: %d", key, slot)
	return 0
}

// whole reports whether a node sees all others and all slots.
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
