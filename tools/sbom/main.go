// Command sbom writes a bill of materials of binaries in the JSON of CycloneDX, one for each of the
// named files. It reads the Go linker's data in them. So it lists the real content, and not all that
// go.mod would allow, and needs neither network nor module cache:
//
//	sbom -version 1.2.3 -out bin bin/hub bin/notifier
//
// writes bin/hub.cdx.json and bin/notifier.cdx.json. The same binary gives the same bytes: the files
// have no times and no random numbers.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", ".", "directory that the bills are written to")
	version := flags.String("version", "", "version of the programs, where the linker wrote none into them")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	for _, binary := range flags.Args() {
		path := filepath.Join(*out, filepath.Base(binary)+".cdx.json")
		count, err := write(path, binary, *version)
		if err != nil {
			fmt.Fprintf(stderr, "sbom: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "%s: %d modules\n", path, count)
	}
	return 0
}

// write writes the bill of a binary and returns of how many modules it is made.
func write(path, binary, version string) (modules int, err error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return 0, err
	}
	bom, err := billOf(filepath.Base(binary), version, info)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", binary, err)
	}
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	encoder := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true)
	return len(*bom.Components), errors.Join(encoder.EncodeVersion(bom, cdx.SpecVersion1_5), f.Close())
}

// billOf lists the modules of a binary and the standard library. A bill says of which
// version it is.
func billOf(name, version string, info *debug.BuildInfo) (*cdx.BOM, error) {
	if version == "" {
		version = info.Main.Version
	}
	if version == "" || version == "(devel)" {
		return nil, errors.New("the linker wrote no version into it: give -version")
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: info.Path, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
	}}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	components := []cdx.Component{component("std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(m.Path, m.Version)
		sum, err := sha256Of(m.Sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		components = append(components, c)
	}
	bom.Components = &components
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: info.Path, Dependencies: &refs}}
	return bom, nil
}

func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, Scope: cdx.ScopeRequired, PackageURL: url,
	}
}

// sha256Of reads a checksum as go.sum has it: a SHA-256 over the names and the
// SHA-256 of a module's files.
func sha256Of(sum string) (string, error) {
	text, found := strings.CutPrefix(sum, "h1:")
	if !found {
		return "", fmt.Errorf("no checksum of the kind h1: %q", sum)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	return hex.EncodeToString(raw), err
}
