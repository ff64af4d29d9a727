package redisstore_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/redistest"
)

func TestTheLogOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	w := slow(worldOn(t, nodes[0], nodes.URL()))
	one, two := w.open(t), w.open(t)
	ear, _ := listen(t, two)
	const n = 50
	var topics []string
	for i := range n {
		name := fmt.Sprint(topicURL, i)
		topics = append(topics, name)
		for second := range 2 {
			receipt := publish(t, one, name, second)
			ear.want(t, fmt.Sprint("published ", receipt.Seq, " ", name))
		}
		pinged := ping(t, one, name)[0]
		ear.want(t, fmt.Sprint("pinged ", pinged.Count, " ", name))
	}
	heads, err := two.Log().Heads(t.Context(), topics)
	must(t, err)
	listed := states(t, two)
	for i, name := range topics {
		if got := seqs(t, two, name); len(got) != 2 || got[1] != heads[i] || listed[name].Head != heads[i] || listed[name].First != got[0] {
			t.Errorf("topic %d has %v, head %d, state %+v", i, got, heads[i], listed[name])
		}
		trim(t, two.Log(), name, heads[i], begin.Add(time.Hour))
		if got := seqs(t, one, name); len(got) != 1 {
			t.Errorf("topic %d has %v after it was trimmed to the last", i, got)
		}
	}
	if got := waiting(t, two); len(listed) != n || len(got) != n {
		t.Errorf("%d topics are listed and %d wait, want %d", len(listed), len(got), n)
	}
}

// follow makes a server the replica of another, and waits until it has all of that.
func follow(t *testing.T, server, primary *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	must(t, err)
	server.Do(t, "REPLICAOF", host, port)
	eventually(t, func() error {
		role := server.Do(t, "ROLE").([]any)
		if role[0] != "slave" || role[3] != "connected" {
			return fmt.Errorf("the replica is %v", role)
		}
		if want, got := primary.Do(t, "ROLE").([]any)[1], role[4]; want != got {
			return fmt.Errorf("the replica is at %v of %v", got, want)
		}
		return nil
	})
}

// TestNoNumberIsGivenTwiceByAServerThatWasAReplica: the server stays the same process,
// and loses what it acknowledged while it was cut off from its replica.
func TestNoNumberIsGivenTwiceByAServerThatWasAReplica(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	replica := redistest.Start(t)
	publish(t, w.db, topicURL, 1)
	follow(t, replica, w.server)
	replica.Do(t, "REPLICAOF", "NO", "ONE")
	lost := publish(t, w.db, topicURL, 2)
	lostPing := ping(t, w.db, topicURL)[0]
	follow(t, w.server, replica)
	w.server.Do(t, "REPLICAOF", "NO", "ONE")
	if got := seqs(t, w.db, topicURL); len(got) != 1 {
		t.Fatalf("the log has %v; it should have lost its end", got)
	}
	next := publish(t, w.db, topicURL, 3)
	nextPing := ping(t, w.db, topicURL)[0]
	if next.Seq <= lost.Seq || nextPing.Count <= lostPing.Count {
		t.Errorf("number %d after %d, count %d after %d", next.Seq, lost.Seq, nextPing.Count, lostPing.Count)
	}
}

// TestReplicasMustHaveWhatIsRepeated: a publication that too few replicas have is not
// acknowledged because it is handed in again.
func TestReplicasMustHaveWhatIsRepeated(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	replica := redistest.Start(t)
	publish(t, w.db, topicURL, 0)
	follow(t, replica, w.server)
	w.cfg.Replicas = 1
	db := w.open(t)
	replica.Pause(t)
	first := publish(t, w.db, topicURL, 1) // it does not ask for replicas
	_, err := db.Log().Append(t.Context(), second(topicURL, 1), uuid.New(), begin)
	wantError(t, err, delivery.ErrUnavailable)
	replica.Resume(t)
	eventually(t, func() error {
		again, err := db.Log().Append(t.Context(), second(topicURL, 1), uuid.New(), begin)
		if err == nil && (!again.Repeated || again.ID != first.ID) {
			t.Fatalf("got %+v, want %+v again", again, first)
		}
		return err
	})
}
