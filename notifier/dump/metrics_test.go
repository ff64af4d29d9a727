package dump_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/store/pebblestore"
)

// docs/metrics.md has all metrics of dumps and no other.
func TestMetricsAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: vfs.NewMem(), MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close() // nothing is written to it
	n, err := notifier.New(context.Background(), notifier.Config{
		URL: "http://source.example/", Hub: "http://hub.example/", Journal: journal, Sets: []string{"a"}, ResourceLists: []string{"a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if _, err := dump.New(context.Background(), dump.Config{
		Notifier: n, Store: journal, Dir: filepath.Join(t.TempDir(), "dumps"), Sets: []dump.Set{{Name: "a"}}, Every: time.Hour, Registry: registry,
	}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
		if row := fmt.Sprintf("| `%s` | %s | ", f.GetName(), strings.ToLower(f.GetType().String())); !strings.Contains(string(page), row) ||
			!strings.Contains(string(page), f.GetHelp()) {
			t.Errorf("docs/metrics.md has no row %s… | %s |", row, f.GetHelp())
		}
	}
	for _, name := range regexp.MustCompile(`carillon_notifier_dump_[a-z_]+`).FindAllString(string(page), -1) {
		if !known[name] {
			t.Errorf("docs/metrics.md has %s, which there is not", name)
		}
	}
}
