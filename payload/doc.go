// Package payload writes, reads and judges ResourceSync documents: change
// notifications first, and the Capability List and Source Description that
// advertise their channel.
//
// The format is core 1.1 (Z39.99-2017) with Change Notification 1.0.1 (CN). The
// writer is strict: what it wrote, Validate accepts. The reader is tolerant: it
// takes what real Sources send, and trusts none of it; it expands no entities
// and bounds depth and size. Validate names each broken rule with its clause.
//
// The package knows nothing of HTTP. Package notifier writes with it, package
// hub judges publications with it, package destination reads with it.
package payload
