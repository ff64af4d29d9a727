// Package redistest gives tests a real Redis: a redis-server of their own on a free
// port of the loopback address, with its files in a directory of the test, that can
// be killed, paused, emptied and started again; and the same for Sentinel and
// Cluster.
//
// Where the programs are missing the test is skipped with a loud line, unless
// CARILLON_REQUIRE_REDIS=1 says that this is a failure. Every process ends with
// the test that started it, and with the test binary in any case.
package redistest
