// Package payload writes, reads and judges ResourceSync documents: change notifications, Source
// Descriptions, Capability Lists, Resource Lists, Change Lists, Resource Dumps, Change Dumps, the
// manifests of both, archives of all four, and all indexes.
//
// The format is core 1.1 (Z39.99-2017) with Change Notification 1.0.1 (CN) and Archives (beta, 2013).
//
//   - The writers (AppendEntry, NotificationWriter, AppendHead and others) are strict.
//     ValidateNotification accepts their documents, an Inspector finds no broken clause in
//     them, and a Reader returns the same again. AppendTold alone writes entries in the
//     words of others.
//   - The Reader is tolerant: it takes the documents of real Sources, and trusts none of
//     them. It expands no entities, refuses document type declarations, and bounds
//     size, depth and count.
//   - ValidateNotification names each rule that a notification breaks, with its
//     clause. An Inspector names the oddities of any document that is read.
//
// The package knows nothing of HTTP. Package notifier writes with it, package hub judges publications
// with it, package destination reads with it.
package payload
