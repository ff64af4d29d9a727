// Package payload writes, reads and judges ResourceSync documents: change
// notifications first, the Capability List and Source Description that advertise
// their channel, and Change Lists, Resource Lists and the indexes of both.
//
// The format is core 1.1 (Z39.99-2017) with Change Notification 1.0.1 (CN).
//
//   - The writer (AppendEntry, NotificationWriter, AppendHead) is strict: what it
//     wrote, ValidateNotification accepts, an Inspector has nothing to say of, and a
//     Reader gives back the same. AppendTold alone writes what others told, as told.
//   - The Reader is tolerant: it takes what real Sources send, and trusts none of
//     it. It expands no entities, refuses document type declarations, and bounds
//     size, depth and count.
//   - ValidateNotification names each rule that a notification breaks, with its
//     clause. An Inspector names what is odd in any document that is read.
//
// The package knows nothing of HTTP. Package notifier writes with it, package
// hub judges publications with it, package destination reads with it.
package payload
