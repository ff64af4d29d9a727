package program

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// reading is what was found while settings are read.
type reading struct {
	known    map[string][]string // the names of all settings, and their variables
	file     file
	problems []error
	dropped  map[*kong.Flag]string // whose value is a problem, and where it stands
}

// file holds the settings of a configuration file by the names of the flags.
type file struct {
	name   string
	values map[string]value
}

// value is a setting of a file, as one on the command line would be written.
type value struct {
	text string
	line int
}

// takesProblems is a command that reports wrong values itself.
type takesProblems interface {
	found(settings *Settings, problems []error)
}

// drop records a problem with a flag's value, which is then not heeded.
func (r *reading) drop(flag *kong.Flag, where string, err error) {
	if r.dropped == nil {
		r.dropped = map[*kong.Flag]string{}
	}
	r.dropped[flag] = where
	r.problems = append(r.problems, fmt.Errorf("%s: %s", where, strings.TrimPrefix(err.Error(), "--")))
}

// environment tries what the environment says, and has what cannot be read not heeded.
// kong would tell the first of them only.
func (r *reading) environment(parser *kong.Kong, args []string) {
	chosen, err := kong.Trace(parser, args)
	if err != nil || chosen.Error != nil {
		return // Parse reports it
	}
	given := map[*kong.Flag]bool{}
	for _, p := range chosen.Path {
		given[p.Flag] = true
	}
	for _, flag := range chosen.Flags() {
		name, text := variable(flag)
		if name == "" || given[flag] {
			continue
		}
		if err := try(flag, text); err != nil {
			r.drop(flag, "$"+name, err)
			flag.Envs, flag.Tag.Envs = nil, nil
		}
	}
}

// try reports whether a flag accepts a text.
func try(flag *kong.Flag, text string) error {
	scratch := reflect.New(flag.Target.Type()).Elem()
	set := flag.Set
	defer func() { flag.Set = set }()
	if err := flag.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), scratch); err != nil {
		return err
	}
	if flag.Enum != "" && !slices.Contains(flag.EnumSlice(), text) {
		return fmt.Errorf("--%s must be one of %s, not %q", flag.Name, strings.Join(flag.EnumSlice(), ", "), text)
	}
	return nil
}

// load reads a configuration file.
func (r *reading) load(in io.Reader) (kong.Resolver, error) {
	r.file = file{name: "configuration file", values: map[string]value{}}
	if named, ok := in.(*os.File); ok {
		r.file.name = named.Name()
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.file.name, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", r.file.name, maxFile)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: not a YAML mapping of flag names to values: %w", r.file.name, err)
	}
	if len(document.Content) == 0 {
		return r, nil // it is empty
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return r, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: not a YAML mapping of flag names to values", r.file.name, top.Line)
	}
	r.keys(top.Content)
	return r, nil
}

// keys reads the pairs of a file. One that is no setting is a typo. A flag without a
// variable says what one call of a command does, and is no setting either.
func (r *reading) keys(pairs []*yaml.Node) {
	names := maps.Clone(r.known)
	delete(names, "config")
	for i := 0; i+1 < len(pairs); i += 2 {
		key, node := pairs[i], pairs[i+1]
		problem := func(format string, args ...any) {
			r.problems = append(r.problems, fmt.Errorf("%s:%d: %w", r.file.name, key.Line, fmt.Errorf(format, args...)))
		}
		before, twice := r.file.values[key.Value]
		text, err := scalar(node)
		switch {
		case names[key.Value] == nil:
			problem("there is no setting %q%s", key.Value, didYouMean(key.Value, slices.Collect(maps.Keys(names))))
		case twice:
			problem("%s is there twice: line %d has it already", key.Value, before.line)
		case err != nil:
			problem("%s takes a value or a list of values", key.Value)
		default:
			r.file.values[key.Value] = value{text, key.Line}
		}
	}
}

func didYouMean(name string, names []string) string {
	if like := nearest(name, names); like != "" {
		return fmt.Sprintf(": did you mean %q?", like)
	}
	return ""
}

// errNested: a value is neither one nor a list of them.
var errNested = errors.New("nested")

// scalar writes a value or a list of them as a flag would take it.
func scalar(node *yaml.Node) (string, error) {
	var decoded any
	if err := node.Decode(&decoded); err != nil {
		return "", err
	}
	all, list := decoded.([]any)
	if !list {
		all = []any{decoded}
	}
	parts := make([]string, len(all))
	for i, one := range all {
		switch one.(type) {
		case nil, []any, map[string]any, map[any]any:
			return "", errNested
		}
		parts[i] = fmt.Sprint(one)
	}
	return strings.Join(parts, ","), nil
}

// Validate implements kong.Resolver: keys has done it.
func (r *reading) Validate(*kong.Application) error { return nil }

// Resolve gives the setting for a flag, unless the environment has one.
func (r *reading) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	v, ok := r.file.values[flag.Name]
	if name, _ := variable(flag); !ok || name != "" || len(flag.Envs) == 0 {
		return nil, nil
	}
	if err := try(flag, v.text); err != nil {
		r.drop(flag, fmt.Sprintf("%s:%d", r.file.name, v.line), err)
		return nil, nil
	}
	return v.text, nil
}
