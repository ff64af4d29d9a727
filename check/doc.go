// Package check finds the faults of a Source: of its documents, packages, links, discovery and topics,
// and of the resources themselves.
//
// Run begins at the given places and walks along everything that the standards connect with them:
//
//	site ── /.well-known/resourcesync, robots.txt, links of the page
//	  │
//	Source Description ◀─up─ Capability List ◀─up─ list, dump, archive ◀─index─ part
//	  └────────────────▶ url ──────┴────────────▶ url ────────┴──────────────▶ sitemap
//	                                ├▶ topic ─▶ hub                └▶ package, manifest, archived list
//
// Package payload judges a document by itself (payload.Inspector). This package judges the relations:
// links and their targets, intervals that must follow on each other, lists and served resources.
// Findings that compare documents are confirmed on documents read again, in case the Source has made
// them anew meanwhile. A local file is judged by itself; its links are followed where Config.Allow
// lets them.
//
// All documents come from a stranger. Limits bound requests, bytes, time, redirects and depth; where
// one is reached, a note reports it. Run opens no connections itself: it asks through
// Config.Transport, and only the addresses that Config.Allow allows. It sends GET and HEAD only, so
// that it changes nothing anywhere.
//
// cmd/destination calls it for destination check, cmd/hub for the operator's page.
package check
