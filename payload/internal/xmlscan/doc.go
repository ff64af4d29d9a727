// Package xmlscan reads XML 1.0 with namespaces, token by token, from input that
// nobody vouches for.
//
// What it guarantees: a document that was read to io.EOF without an error is
// well-formed (one root, matching tags, declared prefixes, no attribute twice,
// only characters that XML 1.0 allows) and was within the Limits; memory is
// bounded by Limits.Token and Limits.Depth, whatever the input; nothing is ever
// expanded but character references and the five predefined entities.
//
// What it does not: a document type declaration is refused (ErrDoctype), not
// read, and with it every entity that a document could define; encodings other
// than UTF-8 are refused (ErrEncoding); names are checked in their ASCII part
// only.
//
// Package payload reads ResourceSync documents with it. It stands beside
// encoding/xml because a hub reads every notification that is published to it:
// no allocation per token makes it some ten times as fast, and it holds to what
// encoding/xml lets pass (two roots, duplicate attributes, undeclared prefixes).
package xmlscan
