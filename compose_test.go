package carillon_test

import (
	"go/version"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeFile is what the tests look at in docker-compose.yml.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
		IPAM     struct {
			Config []struct {
				Subnet string `yaml:"subnet"`
			} `yaml:"config"`
		} `yaml:"ipam"`
	} `yaml:"networks"`
	Volumes map[string]any `yaml:"volumes"`
}

type composeService struct {
	Image string `yaml:"image"`
	Build *struct {
		Context string `yaml:"context"`
		Target  string `yaml:"target"`
	} `yaml:"build"`
	Command     []string `yaml:"command"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Volumes  []string  `yaml:"volumes"`
	Ports    []string  `yaml:"ports"`
	Networks yaml.Node `yaml:"networks"`
	Profiles []string  `yaml:"profiles"`

	User        string            `yaml:"user"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	Memory      string            `yaml:"mem_limit"`
	PIDs        int               `yaml:"pids_limit"`
	Environment map[string]string `yaml:"environment"`
	Logging     struct {
		Options map[string]string `yaml:"options"`
	} `yaml:"logging"`
}

// composed reads docker-compose.yml as it is where no variable is set.
func composed(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`\$\{\w+:-([^}]*)\}`).ReplaceAllString(string(text), "$1")
	if strings.Contains(plain, "$") {
		t.Error("docker-compose.yml has a variable without a default")
	}
	var c composeFile
	if err := yaml.Unmarshal([]byte(plain), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The programs take the commands that they are given: each is parsed by the
// program itself, which then refuses an address that cannot be.
func TestComposeCommands(t *testing.T) {
	bin := build(t)
	parsed := 0
	for name, s := range composed(t).Services {
		if s.Build == nil {
			continue
		}
		args := append(slices.Clone(s.Command), "--listen=127.0.0.1:99999")
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, s.Build.Target), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--listen 127.0.0.1:99999") {
			t.Errorf("%s: %s %q ends with %v and says\n%s", name, s.Build.Target, args, err, out)
		}
		if s.Healthcheck != nil {
			check := append(slices.Clone(s.Healthcheck.Test[2:]), "--help")
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "hub"), check...).CombinedOutput()
			if s.Healthcheck.Test[1] != "/hub" || err != nil {
				t.Errorf("%s: the health check %q ends with %v and says\n%s", name, s.Healthcheck.Test, err, out)
			}
			checkFlags(t, name, s.Healthcheck.Test[2:], string(out))
		}
		parsed++
	}
	if parsed != 4 {
		t.Errorf("%d commands were parsed; there are two hubs, a notifier and a destination", parsed)
	}
}

// checkFlags: every flag of the command is in its help.
func checkFlags(t *testing.T, name string, args []string, help string) {
	t.Helper()
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "--") && !strings.Contains(help, flag) {
			t.Errorf("%s: there is no flag %s", name, flag)
		}
	}
}

// The services fit together: what one waits for is healthy, what one names is there.
func TestComposeServices(t *testing.T) {
	c := composed(t)
	want := []string{"balancer", "destination", "hub-1", "hub-2", "notifier", "redis"}
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, want) {
		t.Fatalf("the services are %q; want %q", got, want)
	}
	pinned := regexp.MustCompile(`^[a-z-]+:\d+\.\d+\.\d+-alpine@sha256:[0-9a-f]{64}$`)
	ours := regexp.MustCompile(`^carillon-[a-z]+:\d+\.\d+\.\d+$`)
	for name, s := range c.Services {
		if s.Build == nil && !pinned.MatchString(s.Image) || s.Build != nil && !ours.MatchString(s.Image) {
			t.Errorf("%s: the image %q has no exact version, or is another's and has no digest", name, s.Image)
		}
		if s.Healthcheck == nil && name != "destination" {
			t.Errorf("%s: there is no health check", name)
		}
		for other, d := range s.DependsOn {
			if d.Condition != "service_healthy" || c.Services[other].Healthcheck == nil {
				t.Errorf("%s does not wait until %s is healthy", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, known := c.Volumes[from]; !known && !strings.HasPrefix(from, "./") {
				t.Errorf("%s: there is no volume %s", name, from)
			}
			if _, err := os.Stat(from); strings.HasPrefix(from, "./") && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, network := range networksOf(t, s) {
			if _, known := c.Networks[network]; !known {
				t.Errorf("%s: there is no network %s", name, network)
			}
		}
	}
	if waits := c.Services["balancer"].DependsOn; len(waits) != 2 || len(c.Services["hub-1"].DependsOn) != 1 {
		t.Errorf("the balancer waits for %d services, want both hubs; and a hub for Redis", len(waits))
	}
	if !slices.Equal(c.Services["destination"].Profiles, []string{"trial"}) {
		t.Error("the destination is for the profile trial alone")
	}
}

func networksOf(t *testing.T, s composeService) (names []string) {
	t.Helper()
	if s.Networks.Kind == yaml.MappingNode {
		byName := map[string]any{}
		if err := s.Networks.Decode(&byName); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(byName))
	}
	if err := s.Networks.Decode(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

// The operator's listener of the hubs is reached by the balancer, so it has a token: one for
// both, which is kept.
func TestComposeOperatorsToken(t *testing.T) {
	hub := composed(t).Services["hub-1"]
	file := option(t, hub.Command, "--admin-token-file")
	if !slices.Contains(hub.Command, "--admin-plain") || filepath.Dir(file) != "/data" || !slices.Contains(hub.Volumes, "hub-keys:/data") {
		t.Errorf("the hubs run as %q with %q: they would not start, or have a token each", hub.Command, hub.Volumes)
	}
	text, err := os.ReadFile("docker-compose.yml")
	if err != nil || !strings.Contains(string(text), "docker compose cp hub-1:"+file+" .") {
		t.Errorf("nobody is told where the token is: %v", err)
	}
}

// No service can write outside its volume, get rights, take the machine's memory or fill its
// disk with logs.
func TestComposeConfinesEveryService(t *testing.T) {
	c := composed(t)
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s: read_only %t, cap_drop %q, security_opt %q", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if s.Build == nil && (s.User == "" || strings.HasPrefix(s.User, "0:")) { // the Dockerfile says it of the others
			t.Errorf("%s runs as user %q", name, s.User)
		}
		if s.PIDs == 0 || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			t.Errorf("%s: pids_limit %d, logging %v", name, s.PIDs, s.Logging.Options)
		}
		limit := megabytes(t, s.Memory)
		if s.Build != nil {
			// The rest is for what Go does not count, such as Pebble's blocks.
			if soft := megabytes(t, s.Environment["GOMEMLIMIT"]); soft*4 != limit*3 {
				t.Errorf("%s: GOMEMLIMIT is %d MiB of %d; want three quarters", name, soft, limit)
			}
		}
	}
	redis := c.Services["redis"]
	i := slices.Index(redis.Command, "--maxmemory")
	if i < 0 || megabytes(t, redis.Command[i+1])*2 > megabytes(t, redis.Memory) {
		t.Errorf("Redis runs as %q with %s: a rewrite of its file may need as much again", redis.Command, redis.Memory)
	}
	if keep := megabytes(t, option(t, c.Services["hub-1"].Command, "--keep-bytes")); keep*2 > megabytes(t, redis.Command[i+1]) {
		t.Errorf("the logs may take %d MiB of %s", keep, redis.Command[i+1])
	}
}

// megabytes reads a size as compose, Redis, Go or a flag of ours writes it, in MiB.
func megabytes(t *testing.T, size string) int {
	t.Helper()
	found := regexp.MustCompile(`^(\d+)([mg])(b|ib)?$`).FindStringSubmatch(strings.ToLower(size))
	if found == nil {
		t.Fatalf("%q is no size", size)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	if found[2] == "g" {
		n *= 1024
	}
	return n
}

// The hubs learn a client's address from the balancer alone.
func TestComposeClients(t *testing.T) {
	c := composed(t)
	var networks struct {
		Town struct {
			Address string `yaml:"ipv4_address"`
		} `yaml:"town"`
	}
	balancer := c.Services["balancer"]
	if err := balancer.Networks.Decode(&networks); err != nil {
		t.Fatal(err)
	}
	if trusted := option(t, c.Services["hub-1"].Command, "--trusted-proxy"); trusted != networks.Town.Address+"/32" {
		t.Errorf("the hubs trust %s; the balancer is %s", trusted, networks.Town.Address)
	}
	if !strings.Contains(read(t, filepath.Join("deploy", "haproxy.cfg")), "\n    option forwardfor\n") {
		t.Error("the balancer does not say who a client is")
	}
}

// Both hubs are one hub, whose address is the balancer's and whose store loses
// nothing that was acknowledged.
func TestComposeIsOneHub(t *testing.T) {
	c := composed(t)
	one, two := c.Services["hub-1"], c.Services["hub-2"]
	if !slices.Equal(one.Command, two.Command) || one.Image != two.Image {
		t.Errorf("the hubs differ:\n%q\n%q", one.Command, two.Command)
	}
	hub := option(t, one.Command, "--url")
	if hub != "http://balancer:8080/websub/" || option(t, c.Services["notifier"].Command, "--hub") != hub {
		t.Errorf("the hub URI %q is not the balancer's, or the notifier has another", hub)
	}
	if store := option(t, one.Command, "--store"); store != "redis://redis:6379/0" {
		t.Errorf("the store is %q", store)
	}
	redis := strings.Join(c.Services["redis"].Command, " ")
	for _, setting := range []string{"--protected-mode no", "--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis, setting) {
			t.Errorf("Redis is not told %s", setting)
		}
	}
	if !slices.Contains(c.Services["redis"].Volumes, "redis-data:/data") {
		t.Error("the data of Redis is in no volume")
	}
	for name, s := range c.Services {
		if inStore := slices.Contains(networksOf(t, s), "store"); inStore != (name == "redis" || strings.HasPrefix(name, "hub-")) {
			t.Errorf("%s reaches Redis: %v", name, inStore)
		}
	}
	if !c.Networks["store"].Internal {
		t.Error("the network of Redis is open to the world")
	}
}

// The private addresses that the hubs may call are those of the balancer and the
// trial destination, in the network's range, and no others.
func TestComposeOpensTwoAddresses(t *testing.T) {
	c := composed(t)
	var opened, given []string
	for _, arg := range c.Services["hub-1"].Command {
		if network, ok := strings.CutPrefix(arg, "--allow-net="); ok {
			opened = append(opened, network)
		}
	}
	for _, name := range []string{"balancer", "destination"} {
		s := c.Services[name]
		var networks struct {
			Town struct {
				Address string `yaml:"ipv4_address"`
			} `yaml:"town"`
		}
		if err := s.Networks.Decode(&networks); err != nil {
			t.Fatal(err)
		}
		given = append(given, networks.Town.Address+"/32")
		if !strings.HasPrefix(networks.Town.Address, "172.30.77.") {
			t.Errorf("%s has the address %s", name, networks.Town.Address)
		}
	}
	if !slices.Equal(opened, given) {
		t.Errorf("the hubs may call %q; the balancer and the destination are %q", opened, given)
	}
	if config := c.Networks["town"].IPAM.Config; len(config) != 1 || config[0].Subnet != "172.30.77.0/24" {
		t.Errorf("the network is %+v", config)
	}
}

// The world reaches the balancer; the intake is for this machine alone.
func TestComposePorts(t *testing.T) {
	want := map[string][]string{"balancer": {"127.0.0.1:8080:8080"}, "notifier": {"127.0.0.1:8091:8091"}}
	for name, s := range composed(t).Services {
		if !slices.Equal(s.Ports, want[name]) {
			t.Errorf("%s publishes %q; want %q", name, s.Ports, want[name])
		}
	}
}

// The balancer asks each hub, where the hub answers, whether it is ready.
func TestComposeBalancer(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("deploy", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for _, line := range []string{
		"server hub-1 hub-1:8080", "server hub-2 hub-2:8080", "server notifier notifier:8090", "check port 8081",
		"http-check send meth GET uri /readyz", "path_beg /websub/", "bind :8080", "monitor-uri /healthy",
	} {
		if !strings.Contains(config, line) {
			t.Errorf("deploy/haproxy.cfg does not say %q", line)
		}
	}
	c := composed(t)
	if option(t, c.Services["hub-1"].Command, "--admin") != "0.0.0.0:8081" || option(t, c.Services["hub-1"].Command, "--listen") != "0.0.0.0:8080" ||
		option(t, c.Services["notifier"].Command, "--listen") != "0.0.0.0:8090" {
		t.Error("the listeners are not where deploy/haproxy.cfg looks for them")
	}
}

func option(t *testing.T, command []string, name string) string {
	t.Helper()
	for _, arg := range command {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	t.Errorf("there is no %s in %q", name, command)
	return ""
}

// The Dockerfile builds what go.mod asks for, from what .dockerignore lets in.
func TestDockerfile(t *testing.T) {
	dockerfile, ignored := read(t, "Dockerfile"), read(t, ".dockerignore")
	asked := regexp.MustCompile(`\ntoolchain (go(1\.\d+)\.\d+)\n`).FindStringSubmatch(read(t, "go.mod"))
	used := regexp.MustCompile(`\nARG GO_IMAGE=golang:(1\.\d+)(\.\d+)-alpine@sha256:[0-9a-f]{64}\n`).FindStringSubmatch(dockerfile)
	if asked == nil || used == nil || used[1] != asked[2] || version.Compare("go"+used[1]+used[2], asked[1]) < 0 {
		t.Errorf("Dockerfile builds with %q; go.mod has %q", used, asked)
	}
	for _, line := range []string{
		"CGO_ENABLED=0 go build", "FROM scratch AS base", "USER 65532:65532",
		"/etc/ssl/certs/ca-certificates.crt", "AS hub\n", "AS notifier\n", "AS destination\n",
		`ENTRYPOINT ["/hub"]`, `ENTRYPOINT ["/notifier"]`, `ENTRYPOINT ["/destination"]`,
	} {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("Dockerfile does not say %q", line)
		}
	}
	for _, s := range composed(t).Services {
		if s.Build != nil && !strings.Contains(dockerfile, " AS "+s.Build.Target+"\n") {
			t.Errorf("Dockerfile has no target %s", s.Build.Target)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range strings.Fields(string(out)) {
		if room, ours := strings.CutPrefix(room, module); ours {
			top, _, _ := strings.Cut(room, "/")
			if !strings.Contains(ignored, "\n!"+top+"\n") {
				t.Errorf("%s is not let into the build", room)
			}
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if !strings.Contains(ignored, "\n!"+name+"\n") {
			t.Errorf("%s is not let into the build", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
