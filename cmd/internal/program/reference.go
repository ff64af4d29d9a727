package program

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ConfigCommands are the commands about the configuration of a program: S are the flags
// of the command that serves.
type ConfigCommands[S any] struct {
	Check     CheckCommand[S]  `cmd:"" help:"Report errors in the configuration, without starting."`
	Reference ReferenceCommand `cmd:"" hidden:"" help:"Write what all settings mean, as Markdown."`
}

// ReferenceCommand writes what all flags of a program mean, as docs/configuration.md has it.
type ReferenceCommand struct {
	Into string `env:"-" placeholder:"FILE" help:"Put it into this file, between the lines that begin and end the part of the program. Default: standard output."`
}

// Write writes the reference of a program; flags are as for Parse.
func (c *ReferenceCommand) Write(name string, flags any, stdout io.Writer) error {
	text, err := Reference(name, flags)
	if err != nil {
		return err
	}
	if c.Into == "" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	whole, err := os.ReadFile(c.Into)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	begin, end := bounded(name)
	before, rest, found := bytes.Cut(whole, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf(
			"--into %s: it has no lines %q and %q", c.Into, strings.TrimSpace(begin), strings.TrimSpace(end),
		)
	}
	return os.WriteFile(c.Into, slices.Concat(before, []byte(text), after), 0o644)
}

// bounded are the lines around the part of a program.
func bounded(name string) (begin, end string) {
	return "<!-- " + name + ": written by go generate; changes are made in the code -->\n", "<!-- end of " + name + " -->\n"
}

// Reference is what all flags of a program mean, as Markdown; flags are as for Parse.
func Reference(name string, flags any) (string, error) {
	parser, err := newParser(name, flags)
	if err != nil {
		return "", err
	}
	r := &reference{name: name, said: map[string]string{}}
	begin, end := bounded(name)
	r.WriteString(begin)
	main := parser.Model.Node
	all := main.Flags
	if main.DefaultCmd != nil {
		all = slices.Concat(all, main.DefaultCmd.Flags)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f *kong.Flag) bool { return len(f.Envs) == 0 })
	r.groups(all)
	r.base = len(r.said)
	for _, node := range main.Children {
		r.command(node)
	}
	r.WriteString(end)
	return r.String(), nil
}

// reference is the text, as it is written.
type reference struct {
	strings.Builder
	name string
	said map[string]string // the rows of the flags with an anchor, by their names
	base int               // how many of them are in the program's own tables
}

// groups writes a table for each group of settings.
func (r *reference) groups(all []*kong.Flag) {
	var order []string
	of := map[string][]*kong.Flag{}
	for _, flag := range all {
		title := "General"
		if flag.Group != nil {
			title = flag.Group.Title
		}
		if of[title] == nil {
			order = append(order, title)
		}
		of[title] = append(of[title], flag)
	}
	for _, title := range order {
		fmt.Fprintf(r, "\n### %s: %s\n\n", r.name, strings.ToLower(title[:1])+title[1:])
		r.table(of[title])
	}
}

// table writes flags with their variables.
func (r *reference) table(flags []*kong.Flag) {
	r.WriteString("| flag, variable | value | default | |\n|---|---|---|---|\n")
	for _, flag := range flags {
		name := fmt.Sprintf("`--%s`", flag.Name)
		if len(flag.Envs) > 0 {
			name += "<br>`" + strings.Join(flag.Envs, "`, `") + "`"
		}
		if _, known := r.said[flag.Name]; !known && len(flag.Envs) > 0 {
			name = fmt.Sprintf("<a id=%q></a>%s", r.name+"-"+flag.Name, name)
			r.said[flag.Name] = row(flag)
		}
		fmt.Fprintf(r, "| %s | %s\n", name, row(flag))
	}
}

// row is the row of a flag behind its name.
func row(flag *kong.Flag) string {
	meaning := cell(flag.Help)
	if flag.Required {
		meaning = "**Required.** " + meaning
	}
	if flag.Tag.Has("reload") {
		meaning += " *Reloaded by SIGHUP.*"
	}
	initial := "-"
	if flag.HasDefault && flag.Default != "" {
		initial = "`" + flag.Default + "`"
	}
	return fmt.Sprintf("%s | %s | %s |", cell(takes(flag)), initial, meaning)
}

// command writes what a command does, and the flags that only it has.
func (r *reference) command(node *kong.Node) {
	if node.Hidden {
		return
	}
	if node.DefaultCmd != nil {
		r.leaf(node.DefaultCmd, node.FullPath(), node.Help)
		for _, child := range node.Children {
			if !child.Hidden {
				fmt.Fprintf(
					r, "\n`%s`: %s It takes all flags of `%s %s` as well.\n", child.FullPath(),
					cell(child.Help), r.name, child.Name,
				)
			}
		}
		return
	}
	for _, child := range node.Children {
		r.command(child)
	}
	if len(node.Children) == 0 {
		r.leaf(node, node.FullPath(), node.Help)
	}
}

// leaf writes what a command is that is called by usage.
func (r *reference) leaf(node *kong.Node, usage, help string) {
	for _, arg := range node.Positional {
		usage += " " + strings.ToUpper(arg.Name)
	}
	fmt.Fprintf(r, "\n### %s\n\n%s", usage, cell(help))
	if node.Detail != "" {
		r.WriteString(" " + cell(node.Detail))
	}
	r.WriteString("\n\n")
	var own []*kong.Flag
	var shared []string
	for _, flag := range node.Flags {
		if r.said[flag.Name] == row(flag) && len(flag.Envs) > 0 {
			shared = append(shared, fmt.Sprintf("[`--%s`](#%s-%s)", flag.Name, r.name, flag.Name))
		} else {
			own = append(own, flag)
		}
	}
	if len(own) > 0 {
		r.table(own)
	}
	switch {
	case len(shared) == r.base-r.general(node):
		r.WriteString("\nIt takes all flags of " + r.name + " as well.\n")
	case len(shared) > 0:
		r.WriteString("\nFrom above: " + strings.Join(shared, ", ") + ".\n")
	}
}

// general is how many flags are the program's, and are given before any command.
func (r *reference) general(node *kong.Node) (n int) {
	for node.Parent != nil {
		node = node.Parent
	}
	for _, flag := range node.Flags {
		if len(flag.Envs) > 0 {
			n++
		}
	}
	return n
}

// cell has nothing that would end a cell of a table, or be taken for a tag.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}

// takes says which values a flag takes, with their range.
func takes(flag *kong.Flag) string {
	if flag.Enum != "" {
		return strings.Join(flag.EnumSlice(), ", ")
	}
	kind, list := flag.Target.Type(), false
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if flag.IsSlice() {
		kind, list = kind.Elem(), true
	}
	what := strings.Trim(flag.PlaceHolder, `"`)
	switch {
	case kind == reflect.TypeFor[Level]():
		what = "debug, info, warn, error"
	case kind == reflect.TypeFor[time.Duration]():
		what = "duration"
	case kind.Kind() == reflect.Bool:
		what = "true, false"
	case what == "" && kind.Kind() == reflect.String:
		what = "text"
	case what == "":
		what = "number"
	}
	if list {
		what = "list of " + what
	}
	if span := flag.Tag.Get("range"); span != "" {
		what += ", " + span
	}
	return what
}
