//go:build !unix

package mirror

import "os"

// mover moves files out of the directory ownName.
type mover struct{ root *os.Root }

func newMover(root *os.Root) (*mover, error) { return &mover{root}, nil }

func (m *mover) move(name, to string) error { return m.root.Rename(ownName+"/"+name, to) }

func (m *mover) close() error { return nil }
