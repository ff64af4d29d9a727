// Package deliverytest is what an engine must pass to be a delivery.Log,
// delivery.Pings, delivery.Cursors and delivery.Shards: every sentence of the contracts
// has a subtest. An engine's tests call RunLog, RunPings, RunCursors, RunProperty and
// RunShards; one that several processes share calls RunSharing and RunMarks, too.
// Other tests use the Faulty types to see the outcome of an engine that fails.
package deliverytest
