//go:build !unix

package pebblestore

import "log/slog"

// closeToOthers has no modes to look at.
func closeToOthers(string, *slog.Logger) {}
