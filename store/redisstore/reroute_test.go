package redisstore_test

import (
	"fmt"
	"testing"

	"carillon/internal/redistest"
	"carillon/subscription"
)

// A master that dies and never returns is replaced by its replica: calls find the way to it, without a
// redirect from any node.
func TestADeadMasterIsReplaced(t *testing.T) {
	t.Parallel()
	masters, _ := redistest.ReplicatedCluster(t, "cluster-node-timeout 1000", "cluster-require-full-coverage no")
	w := worldOn(t, masters[0], masters.URL())
	r := request(1)
	must(t, w.db.Subscriptions().Submit(t.Context(), r))

	masters[masters.Owner(t, fmt.Sprintf("carillon:{shard-%02d}:requests", subscription.ShardOf(r.ID)))].Kill(t)
	eventually(t, func() error {
		_, err := w.db.Subscriptions().Request(t.Context(), r.ID)
		return err
	})
}
