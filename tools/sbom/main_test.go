package main

import (
	"runtime/debug"
	"testing"
)

// TestBill: each module is named with its version and the checksum of go.sum, and the
// standard library is one of them.
func TestBill(t *testing.T) {
	bom, err := billOf("hub", "0.1.0", &debug.BuildInfo{
		GoVersion: "go1.26.0 X:none", Path: "carillon/cmd/hub", Main: debug.Module{Path: "carillon", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "a.example/b", Version: "v1.2.3", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "a.example/old", Version: "v1.0.0", Replace: &debug.Module{Path: "a.example/new", Version: "v2.0.0", Sum: "h1:AA=="}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := bom.Metadata.Component.Version; got != "0.1.0" {
		t.Errorf("the program's version is %q", got)
	}
	if _, err := billOf("hub", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}); err == nil {
		t.Error("a bill of no version is written")
	}
	var urls []string
	for _, c := range *bom.Components {
		urls = append(urls, c.PackageURL)
	}
	for i, want := range []string{"pkg:golang/std@1.26.0", "pkg:golang/a.example/b@v1.2.3", "pkg:golang/a.example/new@v2.0.0"} {
		if i >= len(urls) || urls[i] != want {
			t.Fatalf("the modules are %q", urls)
		}
	}
	if got := (*(*bom.Components)[1].Hashes)[0].Value; got != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" {
		t.Errorf("the checksum is %s", got)
	}
	if refs := *(*bom.Dependencies)[0].Dependencies; len(refs) != 3 {
		t.Errorf("it depends on %q", refs)
	}
	if _, err := billOf("hub", "0.1.0", &debug.BuildInfo{Deps: []*debug.Module{{Path: "a.example/b", Version: "v1"}}}); err == nil {
		t.Error("a module without a checksum is taken")
	}
}
