package destination_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"carillon/destination"
)

// printed is what a Printer makes of a delivery with the body.
func printed(t *testing.T, asJSON bool, body string) string {
	var out buffer
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		cfg := w.config(t.TempDir())
		cfg.Sink = destination.NewPrinter(&out, asJSON)
		w.start(cfg)
		a := w.subscribed(time.Hour)
		w.deliver(a, a.secret(), "n1", body)
		w.stop()
	})
	return out.String()
}

func TestPrinter(t *testing.T) {
	xml, err := os.ReadFile("testdata/notification.xml")
	if err != nil {
		t.Fatal(err)
	}
	for name, asJSON := range map[string]bool{"testdata/printed.txt": false, "testdata/printed.ndjson": true} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := printed(t, asJSON, string(xml))
		if got != string(want) {
			t.Errorf("%s: printed\n%s\nwant\n%s", name, got, want)
		}
		checkPrintable(t, got)
	}
}

func TestPrinterContent(t *testing.T) {
	got := printed(t, true, "<feed/>")
	var line struct {
		Content struct {
			Type   string
			Length int
		}
		Received     time.Time
		Topic        string
		Notification string
	}
	if err := json.Unmarshal([]byte(got), &line); err != nil {
		t.Fatal(err)
	}
	if line.Content.Type != "application/xml" || line.Content.Length != 7 || line.Received.IsZero() || line.Topic != topicURL || line.Notification != "n1" {
		t.Errorf("printed %s", got)
	}
}

// A media type comes from a header, an id too: they are as foreign as a body.
func TestPrinterHeaders(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		p := destination.NewPrinter(&out, asJSON)
		if err := p.Accept(&destination.Notification{ID: "\x1b[2J\u0085", ContentType: "a\r\nb\x9b\u2028", Topic: "\x7f"}); err != nil {
			t.Fatal(err)
		}
		checkPrintable(t, out.String())
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("more than a line: %q", out.String())
		}
	}
}

func checkPrintable(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U reaches the terminal raw", r)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestPrinterCannotWrite(t *testing.T) {
	if err := destination.NewPrinter(fullDisk{}, false).Accept(&destination.Notification{}); !errors.Is(err, errFull) {
		t.Errorf("Take: %v, want the writer's error", err)
	}
}
