package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
)

// The commands of hub source are about who may publish where the hub runs with --publishers
// registered. A hub that works on the store is asked, and heeds a change at once; hubs on a
// Redis find it within seconds.

// SourceAdd registers a Source.
type SourceAdd struct {
	tokenFlags

	Name     string   `arg:"" help:"Its name: letters, digits, dots, underscores and hyphens."`
	Prefixes []string `name:"topic-prefix" env:"-" required:"" sep:"none" placeholder:"URL" help:"The Source may publish to this topic and to all below it: https://a.example/x is for /x, /x/… and /x?…, and not for /xy. Repeatable."`
}

// Help says what the flags do not.
func (*SourceAdd) Help() string {
	return "The token is printed alone on a line of standard output. The hub keeps its SHA-256 only: who loses the token needs another. " +
		"The Source sends it with what it publishes and with its pings: Authorization: Bearer TOKEN. " +
		"Hubs ask for it where they run with --publishers registered."
}

// Validate refuses what the hub would refuse.
func (f *SourceAdd) Validate() error {
	if f.Name == "" || len(f.Prefixes) == 0 {
		return nil // a missing one has an error of its own
	}
	_, _, err := source.New(f.Name, f.Prefixes, time.Now())
	return err
}

// Run implements Command.
func (f *SourceAdd) Run(ctx context.Context, call Call) error {
	made, c := call.Absent() != nil, sourceChange{call: call, name: f.Name}
	err := f.issue(call.Stdout, false, func(hash source.Hash) (operator.NewSource, error) {
		return c.make(ctx, http.MethodPost, "/sources", api.SourceRequest{Name: f.Name, Prefixes: f.Prefixes, Hash: hash})
	})
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(call.Stderr, "hub: there was no store at %s: it was made\n", call.Store)
	}
	fmt.Fprintf(
		call.Stderr, "hub: Source %s may publish to %s. Its token is %s.\n", f.Name,
		strings.Join(f.Prefixes, ", "), f.where(),
	)
	warnOpen(call.Stderr, c.publishers)
	return nil
}

// SourceRotate gives a Source another token.
type SourceRotate struct {
	tokenFlags

	Name string `arg:"" help:"The Source's name."`
}

// Run implements Command.
func (f *SourceRotate) Run(ctx context.Context, call Call) error {
	if err := call.Absent(); err != nil {
		return err
	}
	c := sourceChange{call: call, name: f.Name}
	err := f.issue(call.Stdout, true, func(hash source.Hash) (operator.NewSource, error) {
		return c.make(ctx, http.MethodPost, "/sources/"+url.PathEscape(f.Name)+"/rotate", api.TokenRequest{Hash: hash})
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(
		call.Stderr,
		"hub: Source %s has another token, which is %s. The one before is refused%s.\n", f.Name,
		f.where(), c.from(),
	)
	warnOpen(call.Stderr, c.publishers)
	return nil
}

// SourceRevoke ends a Source.
type SourceRevoke struct {
	Name string `arg:"" help:"The Source's name."`
	JSON bool   `name:"json" env:"-" help:"Print the API's answer, which is {}."`
}

// Run implements Command.
func (f *SourceRevoke) Run(ctx context.Context, call Call) error {
	if err := call.Absent(); err != nil {
		return err
	}
	c := sourceChange{call: call, name: f.Name}
	if _, err := c.make(ctx, http.MethodDelete, "/sources/"+url.PathEscape(f.Name), nil); err != nil {
		return err
	}
	warnOpen(call.Stderr, c.publishers)
	call.JSON = f.JSON
	return call.say(json.RawMessage("{}"), nil, "hub revoked Source %s: its token is refused%s", f.Name, c.from())
}

// sourceChange makes a change of a Source, through the hub where one runs.
type sourceChange struct {
	call Call
	name string
	// Of who was asked, once the change is made:
	publishers string // the publishers (api.Config.Publishers); "": unknown
	shared     bool
}

func (c *sourceChange) make(ctx context.Context, method, path string, wish any) (s operator.NewSource, err error) {
	asked, err := c.call.Open(ctx, Settings)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, asked.Close()) }()
	if _, err = asked.do(ctx, method, path, wish, &s); err != nil {
		return s, c.refused(err)
	}
	c.publishers, c.shared = asked.publishers, asked.shared
	return s, nil
}

// refused says by which command to do something about a change that was refused.
func (c *sourceChange) refused(err error) error {
	switch {
	case isStatus(err, http.StatusNotFound):
		return fmt.Errorf("there is no Source %q: hub source list names them", c.name)
	case isStatus(err, http.StatusConflict) && strings.Contains(err.Error(), "already: rotate"):
		return fmt.Errorf(
			"there is a Source %q already: hub source rotate gives it another token; to give it other prefixes, revoke it first",
			c.name,
		)
	}
	return err
}

// from says from when on a change counts.
func (c *sourceChange) from() string {
	if c.shared {
		return ", within 10 s by every hub that can reach the store"
	}
	return " from now on"
}

// warnOpen explains Sources at a hub that lets every client publish. The publishers of a hub that was
// not asked, because it does not run or shares a Redis, are unknown.
func warnOpen(stderr io.Writer, publishers string) {
	switch publishers {
	case api.Registered:
	case api.Everybody:
		fmt.Fprintln(
			stderr,
			"hub: this hub runs with --publishers open: everybody may publish, and tokens mean nothing until it runs with --publishers registered",
		)
	default:
		fmt.Fprintln(
			stderr,
			"hub: this counts where the hub runs with --publishers registered; without that everybody may publish",
		)
	}
}

// SourceList lists the Sources.
type SourceList struct {
	JSON bool `name:"json" env:"-" help:"Print a JSON array of objects with name, topic_prefixes, created and token_issued."`
}

// Run implements Command.
func (f *SourceList) Run(ctx context.Context, call Call) error {
	call.JSON = f.JSON
	return call.with(ctx, Settings, func(c *Client) error {
		var all []operator.Source
		text, err := c.read(ctx, "/sources", &all)
		if err != nil {
			return err
		}
		warnOpen(call.Stderr, c.publishers)
		return call.show(text, nil, func() error {
			t := table(call.Stdout)
			row(t, "NAME", "TOKEN ISSUED", "TOPIC PREFIXES")
			for _, s := range all {
				row(t, s.Name, s.Issued.UTC().Format(time.RFC3339), strings.Join(s.Prefixes, " "))
			}
			return t.Flush()
		})
	})
}

// tokenFlags say where a new token goes.
type tokenFlags struct {
	TokenFile string `env:"-" placeholder:"FILE" help:"Write the token to this file, which only its owner can read, and not to standard output."`
	JSON      bool   `name:"json" env:"-" help:"Print the Source as the API has it, with its token unless that goes to a file."`
}

// issue makes a token, has its hash kept, and gives the token out: to standard output, or
// to the file, which may be there already only where replace says so.
func (f tokenFlags) issue(stdout io.Writer, replace bool, keep func(source.Hash) (operator.NewSource, error)) error {
	token := source.NewToken()
	if f.TokenFile == "" {
		kept, err := keep(token.Hash())
		if err != nil {
			return err
		}
		kept.Token = string(token)
		if err := f.print(stdout, kept, kept.Token); err != nil {
			return fmt.Errorf("the token could not be written, and is lost (hub source rotate makes another): %w", err)
		}
		return nil
	}
	if info, err := os.Lstat(f.TokenFile); err == nil && (!replace || !info.Mode().IsRegular()) {
		return fmt.Errorf("--token-file %s: there is such a file already", f.TokenFile)
	}
	kept, err := f.write(token, keep)
	if err != nil {
		return err
	}
	return f.print(stdout, kept, "hub wrote the token to "+f.TokenFile)
}

// where says where the token is to be found.
func (f tokenFlags) where() string {
	if f.TokenFile != "" {
		return "in " + f.TokenFile + ", and nowhere else"
	}
	return "shown this once"
}

// print prints a line, or the Source as JSON.
func (f tokenFlags) print(stdout io.Writer, s operator.NewSource, line string) error {
	if f.JSON {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return printJSON(stdout, text)
	}
	_, err := fmt.Fprintln(stdout, line)
	return err
}

// write has the file ready before the token counts, so that what could go wrong with it does
// so before.
func (f tokenFlags) write(
	token source.Token, keep func(source.Hash) (operator.NewSource, error),
) (kept operator.NewSource, err error) {
	part := f.TokenFile + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return kept, fmt.Errorf(
			"--token-file %s: another command is writing it, or left %s behind: remove that", f.TokenFile, part,
		)
	}
	if err != nil {
		return kept, fmt.Errorf("--token-file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part) // gone, where it was renamed
		}
	}()
	_, err = fmt.Fprintln(file, string(token))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return kept, fmt.Errorf("--token-file: %w", err)
	}
	if kept, err = keep(token.Hash()); err != nil {
		return kept, err
	}
	if err := os.Rename(part, f.TokenFile); err != nil {
		return kept, fmt.Errorf("--token-file: the token is lost (hub source rotate makes another): %w", err)
	}
	return kept, nil
}
