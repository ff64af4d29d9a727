package check_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"carillon/check"
)

// Each duty of the standards has a rule that looks at it, or a reason why none can; and each rule names duties that there are.
func TestEveryDutyHasARule(t *testing.T) {
	f, err := os.Open("testdata/duties.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	looked := map[string]bool{}
	for _, r := range check.Rules() {
		if len(r.Duties) == 0 || r.Looks == "" || r.Level == "" {
			t.Errorf("rule %d has an empty row: %+v", r.Number, r)
		}
		for _, id := range r.Duties {
			looked[id] = true
		}
	}
	duties := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.SplitN(lines.Text(), " ", 4)
		id, level, how := fields[0], fields[1], fields[2]
		switch {
		case !slices.Contains([]string{"M", "S", "R"}, level) || duties[id] != "":
			t.Errorf("%q: a line has a duty that no other has, and its level", lines.Text())
		case how == "check" && !looked[id]:
			t.Errorf("no rule looks at %s", id)
		case how == "no" && (looked[id] || len(fields) < 4):
			t.Errorf("%s: a rule looks at it, or there is no reason why none does", id)
		case how != "check" && how != "document" && how != "no":
			t.Errorf("%q: it is not said how it is looked at", lines.Text())
		}
		duties[id] = how
	}
	// Musts that have no row would be forgotten: this is how many there are.
	if len(duties) != 143 {
		t.Errorf("%d duties", len(duties))
	}
	// May: there is a rule where something is offered and is wrong.
	may := []string{"G-15", "G-20", "AR-1", "AR-2", "LN-5", "LN-7", "DI-3"}
	for id := range looked {
		if how, known := duties[id]; !slices.Contains(may, id) && (!known || how == "no") {
			t.Errorf("a rule names %s, which is no duty", id)
		}
	}
}
