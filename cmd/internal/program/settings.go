package program

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Settings are what flags, environment and file say together.
type Settings struct {
	Command any       // that was chosen, a pointer; nil: the program has no commands
	File    string    // that was read; "" without one
	All     []Setting // of the chosen command and of the program, in the order of --help
}

// Setting is one of them.
type Setting struct {
	Flag string // its name, without dashes
	// From says where it comes from: "--flag", "$VARIABLE", "FILE:LINE" or "default".
	From string
	// Reload: a change of it needs no restart.
	Reload bool
	// Shown is its value without what is secret; "" where it has none.
	Shown   string
	value   string // whole, for comparison
	dropped bool   // it could not be read, and value is another
}

// Shower is a command that knows of secrets in its settings: it returns what may be
// shown of one.
type Shower interface {
	Shown(flag, value string) string
}

// settings are those that were read.
func (r *reading) settings(chosen *kong.Context) *Settings {
	all := &Settings{File: r.file.name}
	given := map[*kong.Flag]bool{}
	for _, p := range chosen.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag] = true
		}
	}
	shower, _ := any(nil).(Shower)
	if node := chosen.Selected(); node != nil {
		all.Command = node.Target.Addr().Interface()
		shower, _ = all.Command.(Shower)
	}
	for _, flag := range chosen.Flags() {
		if len(flag.Envs) == 0 && r.dropped[flag] == "" {
			continue // help, version and what one call does
		}
		s := Setting{
			Flag: flag.Name, From: r.from(flag, given[flag]), Reload: flag.Tag.Has("reload"),
			value: textOf(flag.Target), dropped: r.dropped[flag] != "",
		}
		switch s.Shown = s.value; {
		case s.Flag == logLevelFlag:
			s.Shown = cmp.Or(s.value, defaultLevel)
		case shower != nil:
			s.Shown = shower.Shown(s.Flag, s.value)
		}
		all.All = append(all.All, s)
	}
	return all
}

// from says where a setting comes from.
func (r *reading) from(flag *kong.Flag, given bool) string {
	if given {
		return "--" + flag.Name
	}
	if where := r.dropped[flag]; where != "" {
		return where
	}
	if name, _ := variable(flag); name != "" {
		return "$" + name
	}
	if v, ok := r.file.values[flag.Name]; ok {
		return fmt.Sprintf("%s:%d", r.file.name, v.line)
	}
	return "default"
}

// variable is the variable of the environment that a flag is given by, and its value.
func variable(flag *kong.Flag) (name, value string) {
	for _, name := range flag.Envs {
		if value, ok := os.LookupEnv(name); ok {
			return name, value
		}
	}
	return "", ""
}

// textOf writes a value as it could be given.
func textOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return shortDuration(value)
	case fmt.Stringer:
		return value.String()
	case encoding.TextMarshaler:
		text, _ := value.MarshalText() // of a value that was read as text
		return string(text)
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	var parts []string
	for _, one := range v.Seq2() {
		parts = append(parts, textOf(one))
	}
	return strings.Join(parts, ",")
}

// shortDuration is 240h, and not 240h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// known are the flags of a program and of its commands that have variables, and
// those, by name.
func known(node *kong.Node) map[string][]string {
	all := map[string][]string{}
	for _, flag := range node.Flags {
		if len(flag.Envs) > 0 {
			all[flag.Name] = flag.Envs
		}
	}
	for _, child := range node.Children {
		maps.Copy(all, known(child))
	}
	return all
}

// nearest returns the known name that is most like an unknown one, or "" if all differ too much.
func nearest(name string, names []string) string {
	best, least := "", (len(name)+1)/3+1
	for _, other := range slices.Sorted(slices.Values(names)) {
		if d := distance(name, other, least); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is how many letters must be added, taken away or changed to make b of a, as
// far as that is below most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
