package main

import (
	"context"

	"carillon/cmd/internal/program"
)

// reload takes the configuration anew at each SIGHUP until ctx ends.
func (h *house) reload(ctx context.Context) error {
	if h.reloads == nil {
		return nil
	}
	return h.reloads.Run(ctx)
}

// prepare looks at what a reload takes. The file of the operator's token is looked at by
// itself (operatorToken).
func (h *house) prepare(command any) (c program.Change, err error) {
	f := command.(*serveCommand)
	if err := c.Renew(h.public, f.TLS, ""); err != nil {
		return c, err
	}
	err = c.Renew(h.operator, f.AdminTLS, "admin-")
	return c, err
}
