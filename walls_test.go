// Package carillon_test holds the walls of the house: which room may import
// which. ARCHITECTURE.md draws them.
package carillon_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "carillon/"

// mayImport says for each room which other rooms its code may import, tests
// aside. A room that is not here has no business in the house yet.
var mayImport = map[string]struct {
	rooms  []string
	reason string
}{
	"topic": {[]string{"internal/dots", "internal/standing"}, "an address is read and compared the same way by every side, whatever becomes of it"},
	"subscription": {
		[]string{"internal/standing", "internal/turns", "internal/wallclock", "topic"},
		"it is the ground floor: what is stored must not depend on how it is delivered or served",
	},
	"source":              {[]string{"subscription", "internal/dots", "topic"}, "it is the ground floor: who may publish is told by tokens and topics"},
	"payload":             {nil, "documents know nothing of HTTP, hubs or stores"},
	"internal/weblink":    {nil, "links are read the same way by every side"},
	"internal/dots":       {nil, "what leads out of a path is judged the same way for prefixes of Sources and bases of mirrors"},
	"internal/unpack":     {[]string{"internal/dots"}, "packages of strangers are opened the same way by mirrors and by the check, and nothing is known of what is in them"},
	"internal/urlpath":    {nil, "what is a file's address below a base is told the same way by those who serve directories and those who publish copies"},
	"internal/durable":    {nil, "a file is made durable the same way by every side"},
	"internal/await":      {nil, "everyone waits the same way"},
	"internal/bodies":     {nil, "bodies of strangers are taken in the same way by every side"},
	"internal/readings":   {[]string{"internal/bodies"}, "slow readers are cut off for others in the same way by every side"},
	"internal/legible":    {nil, "the text of strangers is shown the same way by every side"},
	"internal/negotiate":  {nil, "which representation a client accepts or has is read the same way by every side"},
	"internal/retryafter": {nil, "a header is read the same way by every side"},
	"internal/fetch": {[]string{
		"internal/await", "internal/legible", "internal/retryafter",
	}, "servers of strangers are asked the same way, whatever becomes of what they send"},
	"internal/turns":    {nil, "those who wait take turns in the same way, whatever they wait for"},
	"internal/standing": {nil, "who behaves how is told the same way by those who ask callbacks and those who ask topics"},
	"internal/egress":   {[]string{"internal/turns", "topic"}, "the one way out serves every room and knows none"},
	"internal/digests":  {nil, "hashes are computed and compared the same way by every side"},
	"internal/faults": {
		[]string{"delivery", "delivery/dispatch", "delivery/send", "subscription", "source", "topic"},
		"it wraps the interfaces of engines, and knows no engine; only tests use it",
	},
	"internal/h1": {nil, "a client of HTTP/1.1 knows whom it dials through by its Config alone"},
	"internal/tracing": {
		[]string{"delivery", "delivery/send", "subscription", "topic"},
		"it wraps what sends and what publishes by their interfaces, and knows who implements them by nothing else",
	},
	"delivery": {[]string{"subscription", "topic"}, "engines implement it, so it has types and interfaces only: no client, no dialer, no metrics"},
	"delivery/send": {
		[]string{"delivery", "subscription", "internal/egress", "internal/h1", "internal/retryafter", "topic"},
		"an attempt is made the same way whoever wants it, and knows no queue",
	},
	"delivery/report": {[]string{"delivery", "subscription"}, "what operators ask is told without knowing who delivers"},
	"delivery/retain": {
		[]string{"delivery", "subscription", "internal/wallclock", "topic"},
		"logs are trimmed by what their subscriptions need, whoever delivers to them; what counts as one site is told the same way where the logs' room is shared out",
	},
	"delivery/dispatch": {
		[]string{"delivery", "delivery/send", "delivery/report", "delivery/retain", "internal/await", "subscription", "internal/wallclock", "topic"},
		"the log and the cursors must not know who publishes to them",
	},
	"hub": {
		[]string{
			"delivery", "subscription", "source", "payload", "internal/bodies", "internal/weblink",
			"internal/await", "internal/egress", "internal/negotiate", "internal/readings", "internal/retryafter",
			"internal/standing", "internal/turns", "topic",
		},
		"the HTTP face sees interfaces, never an engine",
	},
	"operator": {
		[]string{"check", "delivery", "delivery/send", "delivery/report", "subscription", "source", "payload", "topic"},
		"what operators ask is answered from the rooms' own views and by the interfaces of engines, and knows nothing of HTTP pages",
	},
	"operator/api": {
		[]string{"operator", "delivery", "subscription", "source"},
		"the operator's listener serves a desk, and asks no room itself: it imports others for the types of questions and answers",
	},
	"operator/ask": {[]string{
		"internal/legible", "operator", "operator/api", "delivery", "source",
	}, "commands ask the API, like any program: they know its types, and no store"},
	"operator/offline": {
		[]string{"operator", "delivery", "delivery/dispatch", "delivery/report", "delivery/send", "subscription", "topic"},
		"a store that no hub works on is read by the interfaces of engines",
	},
	"operator/socket": {nil, "a socket in a directory knows nothing of what is asked through it"},
	"operator/page": {
		[]string{"check", "internal/legible", "operator/api", "operator", "delivery", "subscription", "source"},
		"the pages are a face of the desk, like the API: package api serves them and knows none",
	},
	"notifier": {
		[]string{
			"internal/await", "internal/bodies", "internal/fetch", "internal/legible",
			"internal/negotiate", "payload", "internal/readings", "internal/retryafter",
			"internal/standing", "internal/wallclock", "internal/durable", "notifier/archive",
			"notifier/moments",
		},
		"a Source meets the hub over HTTP only",
	},
	"notifier/archive": {[]string{"internal/durable", "notifier/moments"}, "an archive keeps files by the times that they cover, whatever is in them"},
	"notifier/moments": {[]string{"internal/durable"}, "generations are on the disk in the same way, whatever is in them"},
	"destination": {
		[]string{"internal/durable", "internal/legible", "payload", "internal/bodies", "internal/weblink", "internal/retryafter", "internal/fetch"},
		"a Destination meets the hub over HTTP only",
	},
	"notifier/directory": {[]string{
		"internal/await", "notifier", "payload", "internal/urlpath",
	}, "a directory is one more way in for events: it knows sets and events, and no store"},
	"notifier/dump": {
		[]string{
			"internal/await", "notifier", "notifier/archive", "notifier/moments", "payload",
			"internal/digests", "internal/durable", "internal/fetch", "topic",
		},
		"dumps are made of what the journal has, and of content that a Source opens: they know no engine and no directory",
	},
	"destination/lists": {[]string{
		"internal/legible", "payload", "internal/weblink", "internal/fetch",
	}, "what a Source serves is read the same way, whatever becomes of it"},
	"check": {
		[]string{"payload", "internal/digests", "internal/legible", "internal/unpack", "internal/weblink", "internal/fetch"},
		"what is wrong with a Source is the same for whoever asks, a Destination or a hub's operator",
	},
	"destination/packages": {
		[]string{"internal/await", "destination/lists", "payload", "internal/digests", "internal/unpack", "internal/fetch", "internal/legible"},
		"a package is downloaded and opened the same way, whatever becomes of its content",
	},
	"destination/follow": {
		[]string{"internal/await", "destination", "destination/lists", "payload", "internal/retryafter", "internal/legible"},
		"order is restored from what is pushed and what is read; who takes the changes it does not know",
	},
	"destination/mirror": {
		[]string{
			"internal/await", "destination/follow", "destination/lists", "destination/packages",
			"payload", "internal/digests", "internal/durable", "internal/dots", "internal/unpack",
			"internal/fetch", "internal/legible",
		},
		"a mirror is one of those who take changes",
	},
	"destination/republish": {
		[]string{
			"internal/await", "destination", "destination/mirror", "payload", "internal/fetch",
			"internal/legible", "internal/retryafter", "internal/urlpath",
		},
		"an aggregator's notifier is met over HTTP only, like anybody's",
	},
	"store/pebblestore": {
		[]string{
			"delivery", "subscription", "source", "notifier", "destination/follow",
			"destination/mirror", "destination/republish", "payload", "topic",
		},
		"an engine imports only the types that it stores",
	},
	"store/redisstore": {[]string{"delivery", "subscription", "source", "topic"}, "an engine imports only the types that it stores"},
	"store/measured": {[]string{
		"delivery", "subscription", "source", "topic",
	}, "it wraps the interfaces of engines, and knows no engine"},
	"transfer": {[]string{
		"delivery", "subscription", "source", "topic",
	}, "an export is the same from every engine, and knows none"},
	".": {[]string{"internal/house", "internal/release"}, "the library is a face: what it exports has no type of a room"},
	"internal/house": {
		[]string{
			"check", "delivery", "delivery/dispatch", "delivery/send", "hub", "internal/await", "internal/egress",
			"internal/engine", "internal/machine", "internal/release", "internal/tracing",
			"operator", "operator/api", "operator/page", "topic", "operator/socket", "source",
			"store/measured", "store/pebblestore", "subscription",
		},
		"it connects the rooms of a hub; of the embedded engine it knows the names of files and the defaults",
	},
	"internal/engine": {
		[]string{
			"delivery", "internal/machine", "internal/release", "operator", "operator/api",
			"operator/socket", "source", "store/pebblestore", "store/redisstore", "subscription",
			"transfer",
		},
		"it alone chooses between the engines, for hubs and for commands",
	},
	"internal/machine": {nil, "what a process may have of its machine is the same for every program"},
	"internal/release": {nil, "every part has the same version"},
	"cmd/internal/program": {[]string{
		"internal/legible", "internal/machine", "internal/release",
	}, "flags, logs and listeners are the same for every command"},
	"cmd/internal/copies": {
		[]string{
			"cmd/internal/program", "internal/durable", "internal/engine", "internal/machine",
			"internal/release", "operator/ask", "store/pebblestore", "transfer",
		},
		"what the commands that copy a store do is told without their flags: they open its engine, or ask the hub that has it open",
	},
	"cmd/hub": {
		[]string{
			"cmd/internal/copies", "cmd/internal/program", "delivery/send", "internal/await", "internal/egress",
			"internal/engine", "internal/house", "internal/machine", "internal/release", "operator",
			"operator/api", "operator/ask", "operator/offline", "store/pebblestore", "transfer",
		},
		"a command has flags and listeners: the hub is the library's, and commands on a store open its engine; internal/house checks values that mean a default in the library",
	},
	"cmd/notifier": {
		[]string{
			"internal/machine", "internal/release", "notifier", "notifier/directory",
			"notifier/dump", "payload", "store/pebblestore", "cmd/internal/program",
		},
		"a command chooses the engine and connects the rooms",
	},
	"cmd/destination": {
		[]string{
			"internal/machine", "internal/release", "check", "internal/legible", "destination",
			"destination/lists", "destination/follow", "destination/mirror",
			"destination/republish", "payload", "store/pebblestore", "cmd/internal/program",
		},
		"a command chooses the engine and connects the rooms",
	},
	"bench": {
		[]string{"delivery", "subscription", "transfer", "payload", "destination/lists"},
		"a benchmark drives the real commands from outside; it makes a million subscriptions as an export, reads whether a Source lists its last file, and finds the packages of a dump",
	},
	"internal/together":            {nil, "tests that wait do so side by side in each room"},
	"internal/tracing/tracingtest": {nil, "a collector for tests knows what it is sent by OpenTelemetry's own types"},
	// The conformance suites are imported by the tests of engines only.
	"subscription/subscriptiontest": {[]string{"subscription"}, "a suite knows the interface, never an engine"},
	"source/sourcetest":             {[]string{"source"}, "a suite knows the interface, never an engine"},
	"delivery/deliverytest":         {[]string{"delivery", "subscription", "topic"}, "a suite knows the interface, never an engine"},
	"destination/follow/followtest": {[]string{"destination/follow"}, "a suite knows the interface, never an engine"},
	"destination/mirror/mirrortest": {[]string{"destination/mirror", "payload"}, "a suite knows the interface, never an engine"},
	"notifier/journaltest":          {[]string{"notifier", "payload"}, "a suite knows the interface, never an engine"},

	"destination/republish/republishtest": {[]string{
		"destination/republish", "destination/mirror", "payload",
	}, "a suite knows the interface, never an engine"},
	"destination/packages/packagestest": {[]string{"payload"}, "it makes packages for tests, and knows nobody who reads them"},
}

// onlyIn says which rooms alone may import a package of others.
var onlyIn = map[string]struct {
	rooms  []string
	reason string
}{
	"carillon":                      {[]string{"cmd/hub"}, "the rooms know nothing of their face"},
	"github.com/cockroachdb/pebble": {[]string{"store/pebblestore", "bench"}, "no engine type appears outside its package; in bench the bare engine is a yardstick"},
	"github.com/redis/go-redis":     {[]string{"store/redisstore"}, "no engine type appears outside its package"},
	"github.com/alecthomas/kong":    {[]string{"cmd"}, "flags and environment are read in cmd/ only"},
	"go.opentelemetry.io":           {[]string{"internal/tracing"}, "traces are made in one place, and the rest of the house runs without them"},
	"code.dny.dev/ssrf":             {[]string{"internal/egress"}, "there is one way out, with one guard"},
	"github.com/valyala/fasthttp":   {[]string{"bench"}, "it is a yardstick"},
	"github.com/chromedp":           {[]string{"internal/browsertest"}, "a browser is for tests, which share one way to it"},
	"github.com/fsnotify/fsnotify":  {[]string{"notifier/directory"}, "what happens to files concerns whoever makes events of them"},
	"github.com/gorilla/mux": {[]string{
		"hub", "operator/api", "operator/page", "notifier", "destination",
	}, "only the rooms with an HTTP face route requests"},
	"github.com/prometheus/client_golang/prometheus/promhttp": {[]string{"operator/api", "notifier"}, "metrics are served where operators look"},
}

func TestWalls(t *testing.T) {
	for _, imp := range imports(t) {
		if target, ours := strings.CutPrefix(imp.path, module); ours {
			checkRoom(t, imp, target)
		} else {
			checkForeign(t, imp)
		}
	}
}

func checkRoom(t *testing.T, imp importLine, target string) {
	rule, known := mayImport[imp.room]
	if !known {
		t.Errorf("%s: the room %s is not in mayImport: say what it may import, and why", imp.file, imp.room)
		return
	}
	if !slices.Contains(rule.rooms, target) {
		t.Errorf("%s: %s must not import %s: %s", imp.file, imp.room, target, rule.reason)
	}
}

func checkForeign(t *testing.T, imp importLine) {
	for prefix, rule := range onlyIn {
		if !under(imp.path, prefix) {
			continue
		}
		if !slices.ContainsFunc(rule.rooms, func(room string) bool { return under(imp.room, room) }) {
			t.Errorf("%s: only %v may import %s: %s", imp.file, rule.rooms, imp.path, rule.reason)
		}
	}
}

func under(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// TestNoStandardNameIsShadowed holds the rule that a room is named for what it
// provides, and never like a package of the standard library or a drawer.
func TestNoStandardNameIsShadowed(t *testing.T) {
	drawers := []string{"util", "utils", "common", "models", "types", "helpers", "misc", "http", "log", "sync", "time", "net", "errors"}
	for _, imp := range imports(t) {
		if slices.Contains(drawers, path.Base(imp.room)) {
			t.Errorf("%s: the room %s has a name that says nothing", imp.file, imp.room)
		}
	}
}

type importLine struct{ file, room, path string }

// imports reads the import lines of every file of the house that is not a test.
func imports(t *testing.T) []importLine {
	t.Helper()
	var found []importLine
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name == "tools" || name == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(name))
		for _, spec := range parsed.Imports {
			importPath, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			found = append(found, importLine{name, room, importPath})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no imports found: the test looks in the wrong place")
	}
	return found
}
