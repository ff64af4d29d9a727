// Package weblink reads and writes web links (RFC 8288): Link headers as they
// are found in the wild, the links that Atom, RSS and HTML documents embed
// (WebSub §4), and the Sitemap lines of a robots.txt. Packages hub and destination discover topics with it.
//
// What it guarantees: Parse and FromDocument take any bytes, in time and memory
// that are linear in a bounded input; what String gives is one field value
// whatever the link holds, so that nothing read from a stranger can start
// a second header.
//
// What it does not: it fetches nothing, and does not judge the URIs it finds.
package weblink
