// Command notifier is the Source side of change notification: it takes events
// by HTTP or from standard input, keeps them in a journal, and publishes them to
// a hub as consecutive ResourceSync change notifications. `notifier --help`
// lists its flags.
package main

import (
	"os"

	"carillon/cmd/internal/program"
)

//go:generate go run . config reference --into ../../docs/configuration.md

func main() { os.Exit(program.Main(run)) }
