// Package subscriptiontest is what an engine must pass to be a
// subscription.Store: every sentence of the contract has a subtest. An engine's
// tests call Run; other tests use Faulty to see the outcome of a store that fails.
package subscriptiontest
