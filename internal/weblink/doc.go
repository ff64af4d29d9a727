// Package weblink reads and writes web links (RFC 8288): Link headers as they
// are found in the wild, and the links that Atom, RSS and HTML documents embed
// (WebSub §4). Packages hub and destination discover topics with it.
package weblink
