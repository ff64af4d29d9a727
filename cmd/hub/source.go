package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
	"carillon/store/redisstore"
)

// sourceCommands are about who may publish where the hub runs with --publishers registered.
// A hub that works on the store is asked (openControl), and heeds a change at once; hubs on
// a Redis find it within seconds.
type sourceCommands struct {
	Add    sourceAddCommand    `cmd:"" help:"Register a Source and print its token, once."`
	List   sourceListCommand   `cmd:"" help:"List the Sources. Their tokens are kept nowhere."`
	Rotate sourceRotateCommand `cmd:"" help:"Give a Source another token, and print that. The one before is refused from then on."`
	Revoke sourceRevokeCommand `cmd:"" help:"End a Source: its token is refused from then on."`
}

// sourceAddCommand registers a Source.
type sourceAddCommand struct {
	storeFlags
	tokenFlags

	Name     string   `arg:"" help:"Its name: letters, digits, dots, underscores and hyphens."`
	Prefixes []string `name:"topic-prefix" env:"-" required:"" sep:"none" placeholder:"URL" help:"The Source may publish to this topic and to all below it: https://a.example/x is for /x, /x/… and /x?…, and not for /xy. Repeatable."`
}

// Help says what the flags do not.
func (*sourceAddCommand) Help() string {
	return "The token is printed alone on a line of standard output. The hub keeps its SHA-256 only: who loses the token needs another. " +
		"The Source sends it with what it publishes and with its pings: Authorization: Bearer TOKEN. " +
		"Hubs ask for it where they run with --publishers registered."
}

// Validate refuses what the hub would refuse.
func (f *sourceAddCommand) Validate() error {
	if err := f.storeFlags.Validate(); err != nil {
		return err
	}
	if f.Name == "" || len(f.Prefixes) == 0 {
		return nil // what is missing is told as that
	}
	_, _, err := source.New(f.Name, f.Prefixes, time.Now())
	return err
}

func (f *sourceAddCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	nothing, mode := f.refuseNothing() != nil, ""
	err := f.issue(stdout, false, func(hash source.Hash) (s operator.NewSource, err error) {
		s, mode, err = askSources(ctx, f.storeFlags, logger, f.Name, http.MethodPost, "/sources", api.SourceWish{Name: f.Name, Prefixes: f.Prefixes, Hash: hash})
		return s, err
	})
	if err != nil {
		return err
	}
	if nothing {
		fmt.Fprintf(stderr, "hub: there was no store at %s: it was made\n", f.shown())
	}
	fmt.Fprintf(stderr, "hub: Source %s may publish to %s. Its token is %s.\n", f.Name, strings.Join(f.Prefixes, ", "), f.where())
	warnOpen(stderr, mode)
	return nil
}

// sourceRotateCommand gives a Source another token.
type sourceRotateCommand struct {
	storeFlags
	tokenFlags

	Name string `arg:"" help:"The Source's name."`
}

func (f *sourceRotateCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	if err := f.refuseNothing(); err != nil {
		return err
	}
	mode := ""
	err := f.issue(stdout, true, func(hash source.Hash) (s operator.NewSource, err error) {
		s, mode, err = askSources(ctx, f.storeFlags, logger, f.Name, http.MethodPost, "/sources/"+url.PathEscape(f.Name)+"/rotate", api.TokenWish{Hash: hash})
		return s, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "hub: Source %s has another token, which is %s. The one before is refused%s.\n", f.Name, f.where(), f.from())
	warnOpen(stderr, mode)
	return nil
}

// sourceRevokeCommand ends a Source.
type sourceRevokeCommand struct {
	storeFlags

	Name string `arg:"" help:"The Source's name."`
	JSON bool   `name:"json" env:"-" help:"Print the API's answer, which is {}."`
}

func (f *sourceRevokeCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	if err := f.refuseNothing(); err != nil {
		return err
	}
	_, mode, err := askSources(ctx, f.storeFlags, logger, f.Name, http.MethodDelete, "/sources/"+url.PathEscape(f.Name), nil)
	if err != nil {
		return err
	}
	warnOpen(stderr, mode)
	if f.JSON {
		return printJSON(stdout, json.RawMessage("{}"))
	}
	fmt.Fprintf(stdout, "hub revoked Source %s: its token is refused%s\n", f.Name, f.from())
	return nil
}

// from says from when on a change counts.
func (f *storeFlags) from() string {
	if redisstore.IsURL(f.Store) {
		return ", within 10 s by every hub that can reach the store"
	}
	return " from now on"
}

// askSources makes a change of a Source, through the hub where one runs, and says who may publish
// to that (publishers).
func askSources(ctx context.Context, f storeFlags, logger *slog.Logger, name, method, path string, wish any) (s operator.NewSource, mode string, err error) {
	c, err := openControl(ctx, f, logger)
	if err != nil {
		return s, "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err = c.do(ctx, method, path, wish, &s); err != nil {
		return s, "", sourceRefusal(name, err)
	}
	return s, c.publishers(ctx), nil
}

// publishers is who may publish to the hub that answers, as its --publishers has it; "": that is
// not known.
func (c *control) publishers(ctx context.Context) string {
	var who api.VersionAnswer
	if err := c.call(ctx, http.MethodGet, "/version", nil, &who); err != nil {
		return "" // what was asked for is done
	}
	return who.Publishers
}

// warnOpen says what Sources mean to a hub that lets everybody publish. Who may publish to a hub
// that was not asked, because it does not run or shares a Redis, is not known.
func warnOpen(stderr io.Writer, mode string) {
	switch mode {
	case registered:
	case everybody:
		fmt.Fprintln(stderr, "hub: this hub runs with --publishers open: everybody may publish, and tokens mean nothing until it runs with --publishers registered")
	default:
		fmt.Fprintln(stderr, "hub: this counts where the hub runs with --publishers registered; without that everybody may publish")
	}
}

// sourceRefusal says by which command to do something about a change that was refused.
func sourceRefusal(name string, err error) error {
	refused, is := errors.AsType[refusal](err)
	switch {
	case is && refused.status == http.StatusNotFound:
		return fmt.Errorf("there is no Source %q: hub source list names them", name)
	case is && refused.status == http.StatusConflict && strings.Contains(refused.text, "already: rotate"):
		return fmt.Errorf("there is a Source %q already: hub source rotate gives it another token; to give it other prefixes, revoke it first", name)
	}
	return err
}

// sourceListCommand lists the Sources.
type sourceListCommand struct {
	storeFlags

	JSON bool `name:"json" env:"-" help:"Print a JSON array of objects with name, topic_prefixes, created and token_issued."`
}

func (f *sourceListCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) (err error) {
	if err := f.refuseNothing(); err != nil {
		return err
	}
	c, err := openControl(ctx, f.storeFlags, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var all []operator.Source
	text, err := c.read(ctx, "/sources", &all)
	if err != nil {
		return err
	}
	warnOpen(stderr, c.publishers(ctx))
	if f.JSON {
		return printJSON(stdout, text)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTOKEN ISSUED\tTOPIC PREFIXES")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.Issued.UTC().Format(time.RFC3339), strings.Join(s.Prefixes, " "))
	}
	return table.Flush()
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
func (f tokenFlags) write(token source.Token, keep func(source.Hash) (operator.NewSource, error)) (kept operator.NewSource, err error) {
	part := f.TokenFile + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return kept, fmt.Errorf("--token-file %s: another command is writing it, or left %s behind: remove that", f.TokenFile, part)
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
