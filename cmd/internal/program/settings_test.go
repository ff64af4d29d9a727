package program_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"carillon/cmd/internal/program"
)

// All that is wrong with file and environment is said at once, with line and
// name.
func TestAllProblemsAtOnce(t *testing.T) {
	config := write(t, "# settings\nlisten: [a, {b: c}]\nlisen: x\nlimit: many\nlease-min: soon\nlease-min: 3m\nnet:\n  - 10.0.0.0/8\nfruit: apple\n")
	t.Setenv("BELL_NET", "belfry")
	_, _, err := parse(t, "--config", config)
	if err == nil {
		t.Fatal("it was taken")
	}
	want := []string{
		"$BELL_NET: net: \"belfry\" is no network, as 10.0.0.0/8 and fd00::/8 are, and no address",
		config + ":2: listen takes a value or a list of values",
		config + `:3: there is no setting "lisen": did you mean "listen"?`,
		config + ":6: lease-min is there twice: line 5 has it already",
		config + `:9: there is no setting "fruit"`,
		config + ":5: lease-min: ",
		config + ":4: limit: ",
	}
	told := strings.Split(err.Error(), "\n")
	if len(told) != len(want) {
		t.Errorf("%d problems; want %d:\n%v", len(told), len(want), err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s is not told:\n%v", w, err)
		}
	}
}

// Each setting says what it is and where it comes from.
func TestSettings(t *testing.T) {
	config := write(t, "lease-min: 3h\n\nset: [c, d]\nlimit: 30\ntower-tls-cert: a\n")
	t.Setenv("BELL_LIMIT", "20")
	var f flags
	read, err := program.Read("bell", "A bell.", &f, []string{"--config", config, "--net", "10.0.0.1,fd00::/8"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range read.All {
		got = append(got, fmt.Sprintf("%s=%s from %s %t", s.Flag, s.Shown, strings.Replace(s.From, config, "FILE", 1), s.Reload))
	}
	want := []string{
		"config=" + config + " from --config false",
		"log-level=info from default true",
		"listen=127.0.0.1:1 from default false",
		"lease-min=3h from FILE:1 false",
		"set=c,d from FILE:3 false",
		"limit=20 from $BELL_LIMIT false",
		"net=10.0.0.1/32,fd00::/8 from --net false",
		"tower-tls-cert=a from FILE:5 true",
		"tower-tls-key= from default true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || read.File != config {
		t.Errorf("of %s:\n%s\nwant:\n%s", read.File, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
