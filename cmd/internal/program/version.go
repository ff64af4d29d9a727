package program

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"carillon/internal/release"
)

// VersionCommand prints the version and what it was built from.
type VersionCommand struct {
	JSON bool `name:"json" env:"-" help:"Print a JSON object."`
}

// Built says what a program was built from.
type Built struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // of the source; empty where the build did not note it
	Modified bool   `json:"modified,omitempty"` // the source was not as the commit has it
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Formats are the versions of what the program keeps, by name.
	Formats map[string]int `json:"formats,omitempty"`
}

// Print prints it.
func (c *VersionCommand) Print(stdout io.Writer, name string, formats map[string]int) error {
	b := Built{
		Program: name, Version: release.Version, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: formats,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if c.JSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(b)
	}
	_, err := fmt.Fprintf(stdout, "%s\n", b)
	return err
}

// String is one line.
func (b Built) String() string {
	text := fmt.Sprintf("%s %s (%s, %s", b.Program, b.Version, b.Go, b.Platform)
	if b.Commit != "" {
		text += ", commit " + b.Commit
	}
	if b.Modified {
		text += ", modified"
	}
	return text + ")"
}
