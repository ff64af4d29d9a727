package carillon_test

import (
	"os"
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

// What the units name is there: flags, variables, and directories that agree; and they give
// a program the time and the rights that it needs, and no more.
func TestUnits(t *testing.T) {
	reference, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for program, data := range map[string]string{"hub": "pebble:/var/lib/carillon-hub/store", "notifier": "/var/lib/carillon-notifier/journal"} {
		name := "deploy/carillon-" + program + ".service"
		unit := readUnit(t, name)
		start := strings.Fields(strings.Join(unit["ExecStart"], " "))
		if len(start) == 0 || start[0] != "/usr/local/bin/"+program || !slices.Contains(start, data) {
			t.Errorf("%s starts %q; want the program on %s", name, start, data)
		}
		for _, word := range start {
			if flag, ok := strings.CutPrefix(word, "--"); ok && !strings.Contains(string(reference), `id="`+program+"-"+flag+`"`) {
				t.Errorf("%s: %s has no flag --%s", name, program, flag)
			}
		}
		for _, set := range slices.Concat(unit["Environment"], unit["#Environment"]) {
			for _, assignment := range strings.Fields(set) {
				if variable, _, _ := strings.Cut(assignment, "="); variable != "GOMEMLIMIT" && !strings.Contains(string(reference), "`"+variable+"`") {
					t.Errorf("%s: %s has no variable %s", name, program, variable)
				}
			}
		}
		for key, want := range map[string]string{
			"Type": "notify", "ExecReload": "/bin/kill -HUP $MAINPID", "Restart": "on-failure",
			"StateDirectory": "carillon-" + program, "StateDirectoryMode": "0700", "User": "carillon-" + program,
			"WorkingDirectory": "/var/lib/carillon-" + program, "UMask": "0077",
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
