package main

import (
	"context"
	"errors"
)

// followCommand follows a Source.
type followCommand struct {
	Topic string `placeholder:"URL" help:"Topic to follow." group:"Source"`
}

func (f *followCommand) run(context.Context, surroundings) error {
	return errors.New("not yet")
}
