package carillon_test

import (
	"go/ast"
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

// dialing are the names by which a connection is made, or a name is resolved, of the
// packages that have them. A name that ends in * is any that begins so; * alone is the
// whole package.
var dialing = map[string][]string{
	"net":                             {"Dial*", "Dialer", "Lookup*", "Resolver", "DefaultResolver", "FileConn"},
	"net/http":                        {"Get", "Head", "Post", "PostForm", "Client", "DefaultClient", "Transport", "DefaultTransport", "ProxyFromEnvironment", "ProxyURL"},
	"net/http/httputil":               {"*"},
	"crypto/tls":                      {"Dial*", "Dialer"},
	"net/rpc":                         {"*"},
	"net/rpc/jsonrpc":                 {"*"},
	"net/smtp":                        {"*"},
	"net/textproto":                   {"Dial"},
	"log/syslog":                      {"*"},
	"os/exec":                         {"*"}, // started programs may connect
	"plugin":                          {"*"},
	"syscall":                         {"Connect", "Socket", "Sendto", "RawSyscall*", "Syscall*"},
	"golang.org/x/sys/unix":           {"Connect", "Socket", "Sendto", "RawSyscall*", "Syscall*", "SyscallNoError"},
	"golang.org/x/net/proxy":          {"*"},
	"golang.org/x/net/websocket":      {"*"},
	"golang.org/x/net/http2":          {"Transport", "ClientConn"},
	"golang.org/x/net/http/httpproxy": {"*"},
	"github.com/valyala/fasthttp":     {"*"},
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": {"New*"},
	"github.com/redis/go-redis/v9": {
		"NewClient", "NewClusterClient", "NewFailoverClient", "NewFailoverClusterClient", "NewRing",
		"NewSentinelClient", "NewUniversalClient",
	},
}

// mayDial says which files may use them, besides internal/egress, and to whom they
// connect: to addresses that the operator gave, and never to one that a stranger chose.
var mayDial = map[string]struct {
	names  []string
	reason string
}{
	"cmd/hub/ready.go":            {[]string{"net/http.Client", "net/http.Transport"}, "hub ready asks the operator's own listener (--admin)"},
	"internal/house/selfcheck.go": {[]string{"net/http.Client", "net/http.Transport"}, "the hub asks itself once by the URL that its operator gave (--url), and sends nobody what comes back"},
	"operator/ask/client.go": {
		[]string{"net/http.Client", "net/http.Transport", "net.Dialer"},
		"the commands ask the hub that has the store open, or the operator's listener that they are told of (--admin-url)",
	},
	"operator/socket/socket.go": {[]string{"net.Dialer"}, "it connects to the socket in the store's directory"},
	"cmd/notifier/running.go": {
		[]string{"net/http.Client", "net/http.Transport"},
		"notifier import and notifier dump ask the notifier that has the data directory open, at its own operator's listener (--intake)",
	},
	"cmd/internal/program/notify.go": {[]string{"net.DialUnix"}, "it tells the service manager that started the program, by the socket that its environment names"},
	"internal/house/outbound.go": {[]string{
		"golang.org/x/net/http/httpproxy.FromEnvironment",
	}, "it reads who the operator's proxy is; it connects to nobody"},
	"internal/house/config.go": {[]string{"net.Resolver"}, "it hands a resolver to internal/egress; it connects to nobody"},
	"config.go":                {[]string{"net.Resolver"}, "as internal/house/config.go"},
	"cmd/hub/flags.go":         {[]string{"net.Resolver"}, "as internal/house/config.go"},
	"store/redisstore/client.go": {
		[]string{"net.Dialer", "github.com/redis/go-redis/v9.NewUniversalClient"},
		"the operator's Redis (--store)",
	},
	"internal/h1/sys_linux.go":  {[]string{"syscall.RawSyscall", "syscall.RawSyscall6"}, "it reads and writes at connections that Config.Dial made"},
	"store/redisstore/slips.go": {[]string{"net.Dialer"}, "as store/redisstore/client.go"},
	"notifier/config.go": {
		[]string{"net/http.DefaultTransport", "net/http.Transport"},
		"a notifier publishes to the hub that its operator names (--hub), and takes nobody's URLs",
	},
	"internal/fetch/transport.go": {
		[]string{"net/http.Transport", "net/http.ProxyFromEnvironment"},
		"what a Source serves that its operator's Destination names (--topic, --source, --base, --trust-host), or what the operator's own systems published (notifier --dump), is asked for, and redirects lead where each of these rooms lets them",
	},
	"destination/config.go": {[]string{
		"net/http.Transport", "net/http.ProxyFromEnvironment",
	}, "a Destination asks the topic that its operator names (--topic), and the hub which that names"},
	"internal/tracing/tracing.go": {[]string{
		"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp.New",
	}, "the operator's collector of traces (OTEL_EXPORTER_OTLP_ENDPOINT)"},
	"cmd/destination/follow_handlers.go": {[]string{"os/exec.Cmd", "os/exec.CommandContext"}, "it runs the command that its operator gave (--exec)"},
	"cmd/destination/exec_unix.go":       {[]string{"os/exec.Cmd"}, "as cmd/destination/follow_handlers.go"},
	"cmd/destination/exec_other.go":      {[]string{"os/exec.Cmd"}, "as cmd/destination/follow_handlers.go"},

	"destination/republish/config.go": {[]string{"net/http.Transport"}, "an aggregator hands changes to the intake that its operator names (--publish)"},
}

// outsideOf are folders that no command of the house may import (TestWalls), so that the programs do
// not depend on them.
var outsideOf = map[string]string{
	"bench":                "benchmarks drive the commands from outside, and are clients beside them",
	"internal/redistest":   "the tests' own Redis servers",
	"internal/browsertest": "the tests' own browser",
}

// TestNobodyElseDials: connections to addresses of strangers go through the guard of internal/egress,
// as no other package opens connections, except the ones above.
func TestNobodyElseDials(t *testing.T) {
	used := map[string]bool{}
	files := 0
	walkCode(t, func(name string) {
		files++
		room := filepath.ToSlash(filepath.Dir(name))
		if _, outside := outsideOf[room]; outside || room == "internal/egress" {
			return
		}
		found, err := dialsIn(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		rule := mayDial[filepath.ToSlash(name)]
		for _, use := range found {
			used[filepath.ToSlash(name)+" "+use.what] = true
			if !slices.Contains(rule.names, use.what) {
				t.Errorf(
					"%s uses %s: only internal/egress connects to what strangers choose; where the operator chose it, say so in mayDial",
					use.at, use.what,
				)
			}
		}
	})
	if files < 50 {
		t.Fatalf("%d files: the test looks in the wrong place", files)
	}
	for room := range outsideOf {
		for importer, rule := range mayImport {
			if slices.Contains(rule.rooms, room) && outsideOf[importer] == "" {
				t.Errorf("%s may import %s, which may connect to anybody", importer, room)
			}
		}
	}
	for file, rule := range mayDial {
		for _, what := range rule.names {
			if !used[file+" "+what] {
				t.Errorf("mayDial: %s does not use %s any more", file, what)
			}
		}
		if rule.reason == "" {
			t.Errorf("mayDial: %s has no reason", file)
		}
	}
}

// walkCode calls f with every file of the module that is not a test.
func walkCode(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name == "tools" || d != nil && d.Name() == "testdata" || name != "." && d != nil && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			f(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dialUse is one use of a name of dialing.
type dialUse struct{ at, what string }

// dialsIn finds the uses in a file, or in src if that is not nil. A package that is imported with a
// dot is a use as such: its names look like any others.
func dialsIn(name string, src any) ([]dialUse, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []dialUse
	add := func(at token.Pos, what string) {
		found = append(found, dialUse{set.Position(at).String(), what})
	}
	local := map[string]string{} // the import path by the name that the file has for it
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		switch as := localName(spec, imported); {
		case dialing[imported] == nil && imported != "C":
		case imported == "C" || as == ".":
			add(spec.Pos(), imported)
		default:
			local[as] = imported
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				if imported := local[pkg.Name]; imported != "" && isDialing(imported, sel.Sel.Name) {
					add(sel.Pos(), imported+"."+sel.Sel.Name)
				}
			}
		}
		return true
	})
	// A linkname reaches what is not exported.
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname") {
				add(c.Pos(), "go:linkname")
			}
		}
	}
	return found, nil
}

func localName(spec *ast.ImportSpec, imported string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(imported)
	if len(base) > 1 && base[0] == 'v' && base[1] >= '0' && base[1] <= '9' {
		base = path.Base(path.Dir(imported))
	}
	return strings.TrimPrefix(base, "go-")
}

func isDialing(imported, name string) bool {
	return slices.ContainsFunc(dialing[imported], func(pattern string) bool {
		prefix, any := strings.CutSuffix(pattern, "*")
		return any && strings.HasPrefix(name, prefix) || name == pattern
	})
}

// TestDialsAreFound: each way to connect is found in what a file could have, and what
// only looks like one is not.
func TestDialsAreFound(t *testing.T) {
	for _, tt := range []struct{ imports, code, want string }{
		{`"net"`, `net.Dial("tcp", a)`, "net.Dial"},
		{`"net"`, `net.DialTimeout("tcp", a, 1)`, "net.DialTimeout"},
		{`n "net"`, `n.DialTCP("tcp", nil, a)`, "net.DialTCP"},
		{`"net"`, `(&net.Dialer{}).Dial("tcp", a)`, "net.Dialer"},
		{`"net"`, `new(net.Dialer)`, "net.Dialer"},
		{`"net"`, `var d net.Dialer; d.Dial("tcp", a)`, "net.Dialer"},
		{`"net"`, `net.LookupHost(a)`, "net.LookupHost"},
		{`"net"`, `net.DefaultResolver.LookupHost(ctx, a)`, "net.DefaultResolver"},
		{`"net"`, `f := net.Dial; f("tcp", a)`, "net.Dial"},
		{`. "net"`, `Dial("tcp", a)`, "net"},
		{`"crypto/tls"`, `tls.Dial("tcp", a, nil)`, "crypto/tls.Dial"},
		{`"crypto/tls"`, `tls.DialWithDialer(d, "tcp", a, nil)`, "crypto/tls.DialWithDialer"},
		{`"net/http"`, `http.Get(a)`, "net/http.Get"},
		{`"net/http"`, `http.DefaultClient.Do(r)`, "net/http.DefaultClient"},
		{`"net/http"`, `http.DefaultTransport.RoundTrip(r)`, "net/http.DefaultTransport"},
		{`"net/http"`, `(&http.Client{}).Do(r)`, "net/http.Client"},
		{`"net/http"`, `var c http.Client; c.Do(r)`, "net/http.Client"},
		{`web "net/http"`, `web.Transport{}`, "net/http.Transport"},
		{`"net/http/httputil"`, `httputil.NewSingleHostReverseProxy(u)`, "net/http/httputil.NewSingleHostReverseProxy"},
		{`"syscall"`, `syscall.Connect(fd, sa)`, "syscall.Connect"},
		{`"syscall"`, `syscall.RawSyscall(1, 2, 3, 4)`, "syscall.RawSyscall"},
		{`"golang.org/x/sys/unix"`, `unix.Connect(fd, sa)`, "golang.org/x/sys/unix.Connect"},
		{`"os/exec"`, `exec.Command("curl", a)`, "os/exec.Command"},
		{`"github.com/redis/go-redis/v9"`, `redis.NewClient(nil)`, "github.com/redis/go-redis/v9.NewClient"},
		{`"C"`, ``, "C"},
		{`"net/http"`, `http.NewRequest("GET", a, nil)`, ""},
		{`"net"`, `net.Listen("tcp", a)`, ""},
		{`"net"`, `var c net.Conn; c.Close()`, ""},
		{`"crypto/tls"`, `tls.Client(c, nil)`, ""},
		{`http "example.com/other"`, `http.Get(a)`, ""},
	} {
		src := "package x\nimport " + tt.imports + "\nfunc f() { " + tt.code + " }\n"
		found, err := dialsIn("x.go", src)
		if err != nil {
			t.Errorf("%s: %v", tt.code, err)
			continue
		}
		if (len(found) == 0) != (tt.want == "") || len(found) > 0 && found[0].what != tt.want {
			t.Errorf("%s with import %s: found %v, want %q", tt.code, tt.imports, found, tt.want)
		}
	}
}
