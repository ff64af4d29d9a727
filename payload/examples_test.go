package payload_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/payload"
)

// judged are the findings on the examples of the standards, each with why the example has it.
// An example that is in no row breaks nothing.
var judged = []struct {
	level           payload.Level
	clause, element string
	why             string
	files           string // each with how often the document has it
}{
	{
		payload.Error, "core §10.1", "rs:ln[@rel='up']",
		"The walkthrough of core 1.3 shows its documents without links. In 10.1 the link is mandatory.",
		"core-01-resourcelist.xml:1 core-02-resourcelist.xml:1 core-1.1/resourcesync_ex_1.xml:1 core-1.1/resourcesync_ex_2.xml:1",
	},
	{
		payload.Error, "core §10.2", "rs:ln[@rel='up']", "The same, of an index.",
		"core-08-resourcelist-index.xml:1 core-1.1/resourcesync_ex_8.xml:1",
	},
	{
		payload.Error, "core §11.1", "rs:ln[@rel='up']", "The same, of a Resource Dump.",
		"core-04-resourcedump.xml:1 core-1.1/resourcesync_ex_4.xml:1",
	},
	{
		payload.Error, "core §11.2", "rs:ln[@rel='up']", "The same, of a manifest.",
		"core-05-resourcedump-manifest.xml:1 core-1.1/resourcesync_ex_5.xml:1",
	},
	{
		payload.Error, "core §12.1", "rs:ln[@rel='up']", "The same, of a Change List.",
		"core-03-changelist.xml:1 core-1.1/resourcesync_ex_3.xml:1",
	},
	{
		payload.Warning, "core §11.1", "url[1]/rs:md/@type",
		"The walkthrough leaves out what is recommended: the package has no rs:md at all.",
		"core-04-resourcedump.xml:1 core-1.1/resourcesync_ex_4.xml:1",
	},
	{
		payload.Warning, "core §11.2", "url[1]/rs:md/@type",
		"The walkthrough leaves out what is recommended: the bitstreams have no media type.",
		"core-05-resourcedump-manifest.xml:2 core-1.1/resourcesync_ex_5.xml:2",
	},
	{
		payload.Error, "core §7", "url[1]/rs:md/@hash",
		"Core 7 asks for hex-encoded digests. These have other letters, - and _ (reading X-6).",
		"core-27-changelist-patch.xml:2 core-1.1/resourcesync_ex_27.xml:2",
	},
	{
		payload.Error, "core §7", "url[1]/rs:ln[1]/@hash", "The same, of the patches.",
		"core-27-changelist-patch.xml:2 core-1.1/resourcesync_ex_27.xml:2",
	},
	{
		payload.Note, "archives §6", "url[2]/rs:md/@from",
		"Two weeks are shown that follow on each other, and each begins a year too early: 2012, and ends in 2013.",
		"archives-6_1-changedump-archive.xml:1",
	},
	{
		payload.Note, "core §12.1", "url[1]/rs:md/@datetime",
		"Core 1.0 did not know datetime, and in 1.1 it is optional. Without it a Destination does not know which changes are new (reading X-2).",
		"archives-2_2-changelist-archives-link.xml:2 core-03-changelist.xml:2 core-19-changelist-open.xml:4 core-21-changelist-closed.xml:4 " +
			"core-24-changelist-mirror.xml:1 core-25-changelist-alternate.xml:1 core-26-changelist-canonical.xml:1 core-27-changelist-patch.xml:2 " +
			"core-28-changelist-describedby.xml:2 core-29-changelist-memento.xml:1 core-30-changelist-collection.xml:1 core-31-changelist-original.xml:1 " +
			"core-32-changelist-aggregator1.xml:1 core-33-changelist-aggregator2.xml:1 core-1.1/resourcesync_ex_24.xml:1 core-1.1/resourcesync_ex_27.xml:2 " +
			"core-1.1/resourcesync_ex_29.xml:1 core-1.1/resourcesync_ex_30.xml:1 core-1.1/resourcesync_ex_31.xml:1 core-1.1/resourcesync_ex_32.xml:1 " +
			"core-1.1/resourcesync_ex_33.xml:1",
	},
	{
		payload.Note, "core §12.1", "url[4]/rs:md/@datetime", "The same: three of its four changes have one.",
		"core-1.1/resourcesync_ex_19.xml:1",
	},
	{
		payload.Note, "core §13.2", "url[1]/rs:md/@datetime", "The same, of a Change Dump Manifest of core 1.0.",
		"core-23-changedump-manifest.xml:4",
	},
}

// TestExamplesOfTheStandards judges the 39 examples of core 1.0, Archives and Change
// Notification, and the 30 of core 1.1, and wants the findings that were judged.
func TestExamplesOfTheStandards(t *testing.T) {
	want := map[string][]string{}
	for _, j := range judged {
		if j.why == "" {
			t.Errorf("%s of %s has no reason", j.clause, j.element)
		}
		for file := range strings.FieldsSeq(j.files) {
			name, times, _ := strings.Cut(file, ":")
			want[name] = append(want[name], fmt.Sprintf("%s %s %s, %s times", j.level, j.clause, j.element, times))
		}
	}
	for dir, n := range map[string]int{"": 39, "core-1.1": 30} {
		paths, err := filepath.Glob(filepath.Join("testdata", "examples", dir, "*.xml"))
		if err != nil || len(paths) != n {
			t.Fatalf("%d examples in %q, %v", len(paths), dir, err)
		}
		for _, path := range paths {
			name := filepath.ToSlash(filepath.Join(dir, filepath.Base(path)))
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			i := payload.NewInspector("")
			if _, _, err := inspect(bytes.NewReader(doc), i); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var got []string
			for _, v := range i.Violations() {
				got = append(got, fmt.Sprintf("%s %s %s, %d times", v.Level, v.Clause, v.Element, v.Times))
			}
			slices.Sort(got)
			slices.Sort(want[name])
			if !slices.Equal(got, want[name]) {
				t.Errorf("%s: found\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
			}
			delete(want, name)
		}
	}
	for name := range want {
		t.Errorf("there is no example %s", name)
	}
}
