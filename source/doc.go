// Package source knows who may publish: the registered Sources, each with a token and
// the topics that the token is good for.
//
//	Authorization: Bearer TOKEN ── BearerToken ──▶ Token
//	                                                │ Registry.Authenticate
//	     Store, read every few seconds ──▶ table ───┤
//	                                                ▼
//	                                   Grant.Covers(topic)?
//
// A token is 256 random bits. What is kept is its SHA-256 alone: a token is shown
// once, when it is made, and cannot be had from any store or export. So many random bits
// cannot be guessed, and need no slow hash.
//
// What it guarantees: nobody is taken for a Source whose record was not read from the
// Store; a Source that was revoked is refused from the end of the next reading on, which
// Refresh makes at once and Run every Config.Every; while the Store cannot be read, what
// was read before counts for Config.Stale and nobody is let in after that, nor before the
// first reading. A topic is covered only where every reading of its path by a server
// stays below the prefix.
//
// What it does not: it does not ask whether a topic names the hub, which holds for
// every publisher; it does not keep tokens from those who can read the requests, which
// is for TLS.
package source
