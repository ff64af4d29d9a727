//go:build !unix

package program

import "context"

// bindable knows of no way to bind without listening: Open reports a port in use.
func bindable(context.Context, string) error { return nil }
