package program

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strings"

	"carillon/internal/release"

	"github.com/alecthomas/kong"
)

// Common are the flags that every command has. Embed it in the command's own
// struct of flags.
type Common struct {
	Config   kong.ConfigFlag  `placeholder:"FILE" help:"Read settings from a YAML file whose keys are the names of the flags. Flags win over the environment, the environment over the file."`
	LogLevel Level            `placeholder:"LEVEL" help:"Least level of the log lines on stderr: debug, info, warn or error. Default info." reload:""`
	Version  kong.VersionFlag `env:"-" help:"Print the version and end."`
}

// ErrDone: help or version was asked for and printed; the command ends with
// status 0.
var ErrDone = errors.New("done")

// Read fills flags, a pointer to a struct with kong tags, from args, from the environment
// (NAME_FLAG, with underscores) and from the file that --config names, in this order of precedence.
// It returns what each setting is and where it comes from.
//
// Fields with the tag cmd, each a struct with flags of its own, are commands; the one with the tag
// default:"withargs" is chosen if the command line names no command, and --help shows its flags with those of the
// program. A variable or a setting in the file is for every command that has the flag.
//
// An error other than ErrDone says what to change, and has all that is wrong with the values in the
// environment and in the file. A command that takes problems (CheckCommand) gets them instead.
func Read(name, summary string, flags any, args []string, stdout io.Writer) (*Settings, error) {
	done := false
	r := &reading{}
	parser, err := newParser(name, flags, kong.Description(summary),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { done = true }),
		kong.Configuration(r.load),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(printHelp),
		kong.ValueFormatter(describe),
	)
	if err != nil {
		return nil, err
	}
	r.known = known(parser.Model.Node)
	args = joinNegatives(args)
	r.environment(parser, args)
	chosen, err := parser.Parse(args)
	if done {
		return nil, ErrDone
	}
	r.empties(chosen)
	if checks := r.checking(chosen, err); checks != nil {
		return checks, nil
	}
	if err != nil {
		r.problems = append(r.problems, errors.New(withoutDefault(parser.Model, err)))
	}
	if len(r.problems) > 0 {
		return nil, fmt.Errorf("%w (%s --help lists the flags)", errors.Join(r.problems...), spoken(name, chosen, err))
	}
	return r.settings(chosen), nil
}

// empties refuses lists of nothing on the command line: most likely they stand for a variable of a
// shell that is not set.
func (r *reading) empties(chosen *kong.Context) {
	if chosen == nil {
		return
	}
	for _, p := range chosen.Path {
		if p.Flag != nil && !p.Resolved && p.Flag.IsSlice() && p.Flag.Target.Len() == 0 {
			r.problems = append(
				r.problems, fmt.Errorf("--%s is empty: give it a value, or leave the flag out", p.Flag.Name),
			)
		}
	}
}

// notValid is kong's status for what is wrong with the command line, or with values that
// were put into the flags already.
const notValid = 80

// checking gives what was found to the command that was chosen, if it takes problems and the
// settings are all read; else nil.
func (r *reading) checking(chosen *kong.Context, err error) *Settings {
	if failed, ok := errors.AsType[*kong.ParseError](err); ok {
		if chosen = failed.Context; failed.ExitCode() != notValid || chosen.Error != nil {
			return nil
		}
	}
	if chosen == nil || chosen.Selected() == nil {
		return nil
	}
	settings := r.settings(chosen)
	checks, ok := settings.Command.(takesProblems)
	if !ok {
		return nil
	}
	if err != nil {
		r.problems = append(r.problems, errors.New(strings.TrimPrefix(err.Error(), chosen.Selected().Path()+": ")))
	}
	checks.found(settings, r.problems)
	return settings
}

// newParser reads what flags are, with what concerns them all.
func newParser(name string, flags any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(flags, append(options,
		kong.Name(name),
		kong.DefaultEnvars(envPrefix(name)),
		kong.Vars{"version": name + " " + release.Version},
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

// spoken is the command as it was typed, as far as one is known.
func spoken(name string, chosen *kong.Context, err error) string {
	if failed, ok := errors.AsType[*kong.ParseError](err); ok {
		chosen = failed.Context
	}
	if chosen == nil {
		return name
	}
	node := chosen.Selected()
	if node == nil || node == chosen.Model.DefaultCmd {
		return name
	}
	return node.FullPath()
}

// joinNegatives joins a flag and the negative number that follows it, which would be taken for a flag
// else: the judge of the value can then name its fault.
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

// withoutDefault returns the text of err without the name of the default command, which
// the user has not typed.
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

// describe is a flag's help: its purpose, its default where the name of the flag does not show it, and
// its environment variable.
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

// Refusals are what is wrong with settings.
type Refusals []error

// Refuse adds an error where a setting is wrong.
func (r *Refusals) Refuse(wrong bool, format string, args ...any) {
	if wrong {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}
