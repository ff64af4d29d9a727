package main

import (
	"fmt"
	"io"
)

// Flags may have passwords in them, of Redis and of a proxy: they are not shown by
// accident, in whatever form.

// Format shows the store without its password.
func (f storeFlags) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "--store "+f.shown()) }

// Format shows the store alone.
func (f serveCommand) Format(s fmt.State, verb rune) { f.storeFlags.Format(s, verb) }

// MarshalText is what encoders make of the flags of a command.
func (f storeFlags) MarshalText() ([]byte, error) { return []byte("--store " + f.shown()), nil }
