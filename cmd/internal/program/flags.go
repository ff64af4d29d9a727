package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Common are the flags that every command has. Embed it in the command's own
// struct of flags.
type Common struct {
	Config   kong.ConfigFlag  `placeholder:"FILE" help:"Read settings from a YAML file whose keys are the names of the flags. Flags win over the environment, the environment over the file."`
	LogLevel string           `enum:"debug,info,warn,error" default:"info" help:"Least level of the log lines on stderr: debug, info, warn or error."`
	Version  kong.VersionFlag `env:"-" help:"Print the version and end."`
}

// ErrDone: help or version was asked for and printed; the command ends with
// status 0.
var ErrDone = errors.New("done")

// Parse fills flags, a pointer to a struct with kong tags, from args, from the
// environment (NAME_FLAG, with underscores) and from the file that --config
// names, in this order of precedence. Any error but ErrDone is one line that
// says what to change.
func Parse(name, summary string, flags any, args []string, stdout io.Writer) error {
	_, err := parse(name, summary, flags, args, stdout)
	return err
}

// ParseCommand is Parse for a program with several commands: the fields of flags
// with the tag cmd, each a struct with flags of its own. It returns a pointer to
// the field of the command that was chosen. The one with the tag
// default:"withargs" is chosen where none is named, and --help shows its flags
// with those of the program. A variable or a setting in the file is for every
// command that has the flag.
func ParseCommand(name, summary string, flags any, args []string, stdout io.Writer) (command any, err error) {
	chosen, err := parse(name, summary, flags, args, stdout)
	if err != nil {
		return nil, err
	}
	return chosen.Selected().Target.Addr().Interface(), nil
}

func parse(name, summary string, flags any, args []string, stdout io.Writer) (*kong.Context, error) {
	done := false
	parser, err := kong.New(flags,
		kong.Name(name), kong.Description(summary),
		kong.DefaultEnvars(envPrefix(name)),
		kong.Vars{"version": name + " " + Version},
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { done = true }),
		kong.Configuration(loadYAML),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(printHelp),
		kong.ValueFormatter(describe),
	)
	if err != nil {
		return nil, err
	}
	chosen, err := parser.Parse(joinNegatives(args))
	if done {
		return nil, ErrDone
	}
	if err != nil {
		return nil, fmt.Errorf("%s (%s --help lists the flags)", withoutDefault(parser.Model, err), name)
	}
	return chosen, nil
}

// joinNegatives joins a flag and the negative number that follows it, which would
// be taken for a flag else: who judges the value can say what is wrong with it.
func joinNegatives(args []string) (joined []string) {
	for i, arg := range args {
		last := len(joined) - 1
		switch negative := len(arg) > 1 && arg[0] == '-' && '0' <= arg[1] && arg[1] <= '9'; {
		case arg == "--":
			return append(joined, args[i:]...)
		case negative && last >= 0 && strings.HasPrefix(joined[last], "--") && !strings.Contains(joined[last], "="):
			joined[last] += "=" + arg
		default:
			joined = append(joined, arg)
		}
	}
	return joined
}

// withoutDefault is what err says without the name of the default command, which
// nobody has typed.
func withoutDefault(app *kong.Application, err error) string {
	if app.DefaultCmd == nil {
		return err.Error()
	}
	return strings.TrimPrefix(err.Error(), app.DefaultCmd.Path()+": ")
}

// printHelp shows the flags of the default command as the program's own, where
// no other command was named.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	app := ctx.Model
	if ctx.Selected() != nil || app.DefaultCmd == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	app.Flags = append(app.Flags, app.DefaultCmd.Flags...) // nothing is parsed after help
	options.NoAppSummary = true
	fmt.Fprintf(ctx.Stdout, "Usage: %s [<command>] [flags]\n", app.Name)
	return kong.DefaultHelpPrinter(options, ctx)
}

// describe is a flag's help: what it is for, its default where the name of the
// flag does not show it, and its environment variable.
func describe(value *kong.Value) string {
	help := value.OrigHelp
	if value.HasDefault && value.Default != "" && value.Flag != nil && value.Flag.PlaceHolder != "" {
		help = strings.TrimSuffix(help, ".") + ". Default " + value.Default + "."
	}
	if len(value.Tag.Envs) == 0 {
		return help
	}
	return help + " ($" + strings.Join(value.Tag.Envs, ", $") + ")"
}

func envPrefix(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// file holds the settings of a configuration file by the names of the flags.
type file map[string]any

func loadYAML(r io.Reader) (kong.Resolver, error) {
	settings := file{}
	if err := yaml.NewDecoder(r).Decode(&settings); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a YAML mapping of flag names to values: %w", err)
	}
	return settings, nil
}

// Validate refuses settings that are not the name of a flag: they are typos.
func (f file) Validate(app *kong.Application) error {
	known := flagNames(app.Node)
	for key := range f {
		if !slices.Contains(known, key) || key == "help" || key == "version" || key == "config" {
			return fmt.Errorf("configuration file: there is no setting %q", key)
		}
	}
	return nil
}

// flagNames are the names of all flags of a program and of its commands.
func flagNames(node *kong.Node) (names []string) {
	for _, flag := range node.Flags {
		names = append(names, flag.Name)
	}
	for _, child := range node.Children {
		names = append(names, flagNames(child)...)
	}
	return names
}

// Resolve gives the setting for a flag, unless the environment has one.
func (f file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := f[flag.Name]
	if !ok || inEnvironment(flag) {
		return nil, nil
	}
	switch v := value.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = fmt.Sprint(p)
		}
		return strings.Join(parts, ","), nil
	case file, nil:
		return nil, fmt.Errorf("configuration file: %s takes a value or a list of values", flag.Name)
	default:
		return fmt.Sprint(v), nil
	}
}

func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
