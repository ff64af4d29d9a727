package carillon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// readUnit reads a unit of systemd: the values of each key, of all sections, with those that
// are commented out under "#KEY".
func readUnit(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(#?[A-Z][A-Za-z]+)=(.*)$`)
	unit := map[string][]string{}
	for i, l := range strings.Split(string(text), "\n") {
		switch found := line.FindStringSubmatch(l); {
		case found != nil:
			unit[found[1]] = append(unit[found[1]], found[2])
		case l != "" && l[0] != '#' && l[0] != '[':
			t.Errorf("%s:%d is no line of a unit: %s", name, i+1, l)
		}
	}
	return unit
}

// The flags, variables and directories in the units exist and agree. The units give a program the time
// and the rights that it needs, and no more.
func TestUnits(t *testing.T) {
	reference, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"hub", "notifier"} {
		name := "deploy/carillon-" + program + ".service"
		unit := readUnit(t, name)
		// A flag here would be one that config check does not see.
		start := strings.Join(unit["ExecStart"], "; ")
		if want := "/usr/local/bin/" + program + " --config /etc/carillon/" + program + ".yaml"; start != want {
			t.Errorf("%s starts %q; want %q", name, start, want)
		}
		for _, set := range slices.Concat(unit["Environment"], unit["#Environment"]) {
			for _, assignment := range strings.Fields(set) {
				if variable, _, _ := strings.Cut(assignment, "="); variable != "GOMEMLIMIT" && !strings.Contains(string(reference), "`"+variable+"`") {
					t.Errorf("%s: %s has no variable %s", name, program, variable)
				}
			}
		}
		for key, want := range map[string]string{
			"Type": "notify", "ExecReload": "/bin/sh -c 'kill -HUP $MAINPID'", "Restart": "on-failure",
			"StateDirectory": "carillon-" + program, "StateDirectoryMode": "0700", "User": "carillon-" + program,
			// Not the StateDirectory: a file without store or data would begin an empty one there.
			"WorkingDirectory": "/", "UMask": "0077",
			"After":         "network-online.target time-sync.target",
			"ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
			"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "WantedBy": "multi-user.target",
		} {
			if got := unit[key]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s=%q; want %q", name, key, got, want)
			}
		}
		if stop, err := time.ParseDuration(strings.Join(unit["TimeoutStopSec"], "")); err != nil || stop <= 30*time.Second {
			t.Errorf("%s: TimeoutStopSec is %s, %v: a program may take 30 s to end", name, stop, err)
		}
	}
}

// The configuration files for the units pass the check that the units and the pages name, and
// keep the data where the unit allows it.
func TestUnitsConfiguration(t *testing.T) {
	bin := build(t)
	for program, data := range map[string]string{
		"hub": "store: pebble:/var/lib/carillon-hub/store\n", "notifier": "data: /var/lib/carillon-notifier/journal\n",
	} {
		file := filepath.Join("deploy", program+".yaml")
		if !strings.Contains(read(t, file), "\n"+data) {
			t.Errorf("%s does not say %q", file, data)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, program), "config", "check", "--config", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s config check --config %s: %v\n%s", program, file, err, out)
		}
		unit := read(t, filepath.Join("deploy", "carillon-"+program+".service"))
		check := "sudo -u carillon-" + program + " " + program + " config check --config /etc/carillon/" + program + ".yaml"
		for _, text := range []string{unit, read(t, file)} {
			if !strings.Contains(text, check) {
				t.Errorf("the files for the %s do not say %q", program, check)
			}
		}
	}
}

// The units name a page that their own steps install.
func TestUnitsDocumentation(t *testing.T) {
	for _, program := range []string{"hub", "notifier"} {
		name := filepath.Join("deploy", "carillon-"+program+".service")
		page, ok := strings.CutPrefix(strings.Join(readUnit(t, name)["Documentation"], " "), "file://")
		install := "install -D -m 644 docs/" + filepath.Base(page) + " " + page
		if !ok || !strings.Contains(read(t, name), install) {
			t.Errorf("%s: nobody installs the documentation %s", name, page)
		}
		if !strings.Contains(read(t, filepath.Join("docs", "operations.md")), install) {
			t.Errorf("docs/operations.md does not say %q", install)
		}
	}
}
