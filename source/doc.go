// Package source has the registered Sources: each has a token, and prefixes of the topics to
// which it may publish.
//
//	Authorization: Bearer TOKEN ── BearerToken ──▶ Token
//	                                                │ Registry.Authenticate
//	     Store, read every few seconds ──▶ table ───┤
//	                                                ▼
//	                                   Grant.Covers(topic)?
//
// A token is 256 random bits. The Store has only its SHA-256: a token is shown
// once, when it is made, and no store or export contains it. So many random bits
// cannot be guessed, and need no slow hash.
//
// Guarantees:
//   - A token counts only if its Source was read from the Store.
//   - A revoked Source is refused from the end of the next reading on. Refresh reads at once,
//     and Run every Config.Every.
//   - While the Store cannot be read, the last reading counts for Config.Stale. Before the first
//     reading and after that time every token is refused.
//   - A prefix covers a topic only if every way in which a server may read the topic's path
//     stays below the prefix.
//
// The package does not check whether a topic names the hub: that rule holds for every publisher.
// It does not protect tokens in requests: use TLS.
package source
