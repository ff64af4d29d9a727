package delivery

import "carillon/internal/egress"

// hostOf returns what callbacks of one host share: scheme, name and port. What
// cannot be told apart is one host.
func hostOf(callback string) string { return egress.Origin(callback) }
