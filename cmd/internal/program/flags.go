package program

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Common are the flags that every command has. Embed it in the command's own
// struct of flags.
type Common struct {
	Config   kong.ConfigFlag  `placeholder:"FILE" help:"Read settings from a YAML file whose keys are the names of the flags. Flags win over the environment, the environment over the file."`
	LogLevel Level            `placeholder:"LEVEL" help:"Least level of the log lines on stderr: debug, info, warn or error. Default info."`
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
	parser, err := newParser(name, flags, kong.Description(summary),
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
		return nil, fmt.Errorf("%s (%s --help lists the flags)", withoutDefault(parser.Model, err), spoken(name, err))
	}
	return chosen, nil
}

// newParser reads what flags are, with what concerns them all.
func newParser(name string, flags any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(flags, append(options,
		kong.Name(name),
		kong.DefaultEnvars(envPrefix(name)),
		kong.Vars{"version": name + " " + Version},
		kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(network)),
	)...)
}

// network reads a network; an address is that of one machine.
func network(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("CIDR", &text); err != nil {
		return err
	}
	read, err := netip.ParsePrefix(text)
	if addr, failed := netip.ParseAddr(text); failed == nil && addr.Zone() == "" {
		read, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return fmt.Errorf("%q is no network, as 10.0.0.0/8 and fd00::/8 are, and no address", text)
	}
	target.Set(reflect.ValueOf(read))
	return nil
}

// spoken is the command as it was typed, as far as err knows of one.
func spoken(name string, err error) string {
	failed, ok := errors.AsType[*kong.ParseError](err)
	if !ok || failed.Context == nil {
		return name
	}
	node := failed.Context.Selected()
	if node == nil || node == failed.Context.Model.DefaultCmd {
		return name
	}
	return node.FullPath()
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
	help := value.Help
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

// Validate refuses settings that are not the name of a flag: they are typos. A flag
// without a variable says what one call of a command does, and is no setting either.
func (f file) Validate(app *kong.Application) error {
	known := settings(app.Node)
	for key := range f {
		if known[key] == nil || key == "config" {
			return fmt.Errorf("configuration file: there is no setting %q", key)
		}
	}
	return nil
}

// settings are the flags of a program and of its commands that have variables, and
// those, by name.
func settings(node *kong.Node) map[string][]string {
	all := map[string][]string{}
	for _, flag := range node.Flags {
		if len(flag.Envs) > 0 {
			all[flag.Name] = flag.Envs
		}
	}
	for _, child := range node.Children {
		maps.Copy(all, settings(child))
	}
	return all
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
