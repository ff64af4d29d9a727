// Package topic reads the address of a topic or a callback. It holds the rules by which two
// spellings of an address are compared, in one place for every room:
//
//   - Address holds an address as it was spelled, and its Key: two addresses with one Key are the
//     same topic, or the same callback (WebSub §5.1.1).
//   - Prefix covers the topics at and below a URL. It never takes two servers for one.
//   - Origin, Authority, Host and Site name the server of an address, for limits and logs. All
//     spellings of one server have one name.
//   - Domain returns the registered domain of a name.
//
// An address is parsed where it enters: from a request, a record or a flag. After that the
// Address is handed on, so that its Key is computed once.
//
// All functions accept any text, never fail on text that is no URL, and take linear time. Package
// topic does not decide whether an address may be requested: package internal/egress does.
package topic
