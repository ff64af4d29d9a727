// Package payload writes, reads and judges ResourceSync documents: change
// notifications first, and the Capability List and Source Description that
// advertise their channel.
//
// The format is core 1.1 (Z39.99-2017) with Change Notification 1.0.1 (CN).
//
//   - The writer (AppendEntry, NotificationWriter) is strict: what it wrote,
//     ValidateNotification accepts, and a Reader gives back the same.
//   - The Reader is tolerant: it takes what real Sources send, and trusts none of
//     it. It expands no entities, refuses document type declarations, and bounds
//     size, depth and count.
//   - ValidateNotification names each broken rule with its clause.
//
// The package knows nothing of HTTP. Package notifier writes with it, package
// hub judges publications with it, package destination reads with it.
package payload
