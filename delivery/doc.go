// Package delivery is the contract between the hub's deliveries and the engines that store them. It
// holds types, interfaces and errors, and opens no connections.
//
// A topic has a log: accepted notifications in order, each with a sequence number. Publishing appends
// one record, whatever the number of subscriptions. Numbers rise, and a notification names the one
// before it (Notification.After). A subscription has a cursor: the sequence number up to which every
// notification is delivered, or given up and recorded as a Gap. Subscriptions are in shards, by their
// ID. A process writes the cursors of the shards it owns; an engine refuses writes under an old epoch
// (Tenure).
//
//	hub ──▶ dispatch ──▶ Log, Pings      what was published
//	             │─────▶ Cursors, Marks  how far subscriptions have come
//	             ◀────── Shards          which of them this process delivers to
//
// Engines implement Log, Pings, Cursors and Shards, and Marks where processes share them; package
// deliverytest checks them. Package dispatch chooses the next delivery, package send makes the
// attempts, package report holds the answers to operators.
package delivery
