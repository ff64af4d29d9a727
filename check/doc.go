// Package check says what is wrong with a Source: with its documents, packages, links,
// discovery and topics, and with the resources themselves.
//
// Run begins at the places that it is given and walks along everything that the standards
// connect with them:
//
//	site ── /.well-known/resourcesync, robots.txt, links of the page
//	  │
//	Source Description ◀─up─ Capability List ◀─up─ list, dump, archive ◀─index─ part
//	  └────────────────▶ url ──────┴────────────▶ url ────────┴──────────────▶ sitemap
//	                                ├▶ topic ─▶ hub                └▶ package, manifest, archived list
//
// What a document shows by itself, package payload judges (payload.Inspector). This package
// judges what takes two: links and their targets, intervals that must follow on each other,
// what is listed and what is served. Findings that compare documents are confirmed on documents
// read again, in case the Source has made them anew meanwhile. A local file is judged by
// itself; its links are followed where Config.Allow lets them.
//
// Everything that is read comes from a stranger. Limits bound requests, bytes, time, redirects
// and depth; where one is reached, a note says so. Run opens no connections itself: it asks
// through Config.Transport, and only what Config.Allow allows. It sends GET and HEAD only, so
// that it changes nothing anywhere.
//
// cmd/destination calls it for destination check, cmd/hub for the operator's page.
package check
