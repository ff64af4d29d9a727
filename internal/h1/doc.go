// Package h1 sends POSTs over kept HTTP/1.1 connections: deliveries, for a hub
// that makes tens of thousands of them a second. It knows no rooms and never dials
// by itself; its Config says who does.
//
// What it guarantees:
//
//   - One deadline covers everything from waiting for a connection to the last
//     byte of the answer, and the end of the context breaks off what is under way.
//   - Connections, open and idle, are bounded for each host and idle ones over all;
//     idle ones are closed after a while. No goroutine and no timer belongs to a
//     connection or an attempt, and none is left when nothing is open.
//   - An answer is never taken for that of another request: a connection is used
//     again only if its answer was complete, and it is looked at each time just
//     before: nothing may have come since, no bytes and no end. What comes between
//     that look and the request cannot be told from an answer to it.
//   - A request is repeated once, and only where a kept connection failed before a
//     byte of an answer came: requests must bear that.
//   - Headers and what is read of bodies are bounded; redirects are not followed,
//     bodies are ignored and not decompressed.
//
// Only the plainest answers are read here (answer.go). Whatever is unusual goes
// through http.ReadResponse (odd.go), so that there is one opinion on it.
//
// How a request goes:
//
//	begin ──▶ idle connection? ──▶ exchange ──▶ answer ──▶ kept, if nothing is odd
//	            │ no                 │ failed before a byte, and was kept: once more
//	            └─▶ slot, dial ──────┘
package h1
