// Package h1 sends requests over kept HTTP/1.1 connections. Post is for deliveries, of which a hub
// makes tens of thousands a second. RoundTrip is for documents that a hub reads: GET and HEAD, as an
// http.RoundTripper. Both use the same connections, so that the verification of a callback and the
// deliveries to it need one handshake. The package knows no other part of the hub and dials only
// through its Config.
//
// Guarantees:
//
//   - One deadline covers everything from waiting for a connection to the last
//     byte of the answer, and the end of the context breaks off a request under way.
//     The deadline of Post is Config.Timeout, that of RoundTrip its context's.
//   - Connections, open and idle, are bounded for each host; idle ones over all, by
//     number and by memory, and they are closed after a while. No goroutine and no timer
//     belongs to a connection or an attempt, and all end when nothing is open.
//   - TLS handshakes compute in as many slots as there are processors. The time that a
//     Post waits for a slot does not count against its deadline (pace.go).
//   - An answer is never taken for that of another request. A connection is used again
//     only if its answer was complete. Just before each use it is looked at: nothing may
//     have come since, no bytes and no end. Bytes that come between that look and the
//     request look like an answer to it.
//   - A request is repeated once, and only where a kept connection failed before a
//     byte of an answer came: requests must bear that.
//   - Headers are bounded, and so are the bodies that Post reads and ignores. The caller
//     of RoundTrip bounds its body. Redirects are not followed, and nothing is
//     decompressed.
//
// Only the plainest answers to Post are read here (answer.go). Unusual ones go through
// http.ReadResponse (odd.go), so that there is one opinion on them, and so do all answers to RoundTrip
// (roundtrip.go).
//
// How a request goes:
//
//	begin ──▶ idle connection? ──▶ exchange ──▶ answer ──▶ kept, if nothing is odd
//	            │ no                 │ failed before a byte, and was kept: once more
//	            └─▶ wait, or open ───┘
package h1
