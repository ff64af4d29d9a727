// Package ask implements the commands of an operator (hub topics, hub show, hub source, …): each asks
// the API (package api), as the page asks its desk, and prints the answer.
//
//	command ──▶ Client ─┬─ AtListener   the hub at an operator's listener (--admin-url)
//	                    ├─ AtSocket     the hub that has the store open
//	                    └─ Here         a store that no hub has open, or a Redis: this process
//	                                    answers, by the same handlers
//
// cmd/hub decides which of them is asked, and opens it: a Call has it. The fields of a command are its
// arguments and flags, with the tags by which cmd/hub reads them. With --json the output is the API's
// answer.
package ask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/term"

	"carillon/internal/legible"
	"carillon/operator"
)

// Command is one thing that an operator asks or does.
type Command interface {
	Run(ctx context.Context, call Call) error
}

// Part is what a command needs of a store that it opens.
type Part int

// The parts of a store.
const (
	Everything Part = iota // also its subscriptions, which are read first
	Settings               // the publishers, and the level of log lines
)

// Call is what a command works with.
type Call struct {
	// Open finds who answers.
	Open func(ctx context.Context, needs Part) (*Client, error)
	// Absent returns an error if there is no store to open, which Open would make.
	Absent func() error
	// Store is the store for messages, without what may be a password in it.
	Store string
	// JSON has the API's answer printed as it is.
	JSON bool

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// with calls do with who is asked, of a store that is there.
func (call *Call) with(ctx context.Context, needs Part, do func(*Client) error) error {
	if err := call.Absent(); err != nil {
		return err
	}
	c, err := call.Open(ctx, needs)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// show prints an answer as it is, or for people.
func (call *Call) show(text json.RawMessage, err error, people func() error) error {
	switch {
	case err != nil:
		return err
	case call.JSON:
		return printJSON(call.Stdout, text)
	}
	return people()
}

// say prints a line, unless the answer is printed as it is.
func (call *Call) say(text json.RawMessage, err error, format string, args ...any) error {
	return call.show(text, err, func() error {
		_, err := fmt.Fprintf(call.Stdout, format+"\n", args...)
		return err
	})
}

// printJSON prints an answer so that people can read it, too. Control characters are escaped, which is
// the same JSON: they are in its strings alone.
func printJSON(stdout io.Writer, text json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(text), "", "  "); err != nil {
		return err
	}
	_, err := stdout.Write(append(legible.AppendJSON(nil, b.Bytes()), '\n'))
	return err
}

// pageFlags say how much of a list is printed.
type pageFlags struct {
	Limit int    `env:"-" default:"50" placeholder:"N" help:"Print so many: 1 to 1000."`
	After string `env:"-" placeholder:"WHERE" help:"Go on after this: what the command before said."`
	All   bool   `env:"-" help:"Print all of them. With --json it is an answer of the API after the other."`
}

// Validate refuses what no page can be.
func (f *pageFlags) Validate() error { return checkLimit(f.Limit) }

func checkLimit(limit int) error {
	if limit < 1 || limit > operator.MaxLimit {
		return fmt.Errorf("--limit must be from 1 to %d, not %d", operator.MaxLimit, limit)
	}
	return nil
}

// pages asks for one page after the other, by the parameter with the beginning of a page. show is
// called with each and returns where the next begins; "": it was the last.
func (f *pageFlags) pages(ask func(after string, limit int) (next string, err error)) (next string, err error) {
	limit := f.Limit
	if f.All {
		limit = operator.MaxLimit
	}
	next = f.After
	for {
		next, err = ask(next, limit)
		if err != nil || next == "" || !f.All {
			return next, err
		}
	}
}

// query are the parameters of a question that are not zero, by name and value.
func query(pairs ...any) string {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if !reflect.ValueOf(pair[1]).IsZero() {
			values.Set(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// printMore says on stderr how to see what comes next.
func printMore(stderr io.Writer, next string) {
	if next != "" {
		fmt.Fprintf(stderr, "hub: there are more: --all, or --after %s\n", quoted(next))
	}
}

// quoted is a word for a shell, which does nothing with what is in it: topics are URLs of
// strangers.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./:_"
	if strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(legible.Text(word), "'", `'\''`) + "'"
}

// printCoverage says on stderr what an answer is not about.
func printCoverage(stderr io.Writer, c operator.Coverage) {
	switch {
	case c.MissingShards == 0:
		for _, line := range c.Trouble {
			fmt.Fprintf(stderr, "hub: %s\n", legible.Text(line))
		}
	case len(c.Trouble) == 0:
		fmt.Fprintf(stderr, "hub: this is not all: %d of 64 shards did not answer\n", c.MissingShards)
	default: // whose last says how much is missing
		fmt.Fprintf(stderr, "hub: this is not all: %s\n", legible.Text(strings.Join(c.Trouble, "; ")))
	}
}

// sureFlags are those of commands that cannot be undone.
type sureFlags struct {
	Yes bool `env:"-" help:"Do not ask whether it is meant. Needed where standard input is no terminal."`
}

// sureHelp is in the help of commands with sureFlags.
const sureHelp = "On a terminal it asks whether it is meant, unless --yes says so; elsewhere it needs --yes."

// sure asks for confirmation on a terminal. Elsewhere only --yes confirms: a script that was not
// written for it does nothing that cannot be undone.
func (f *sureFlags) sure(call Call, what string) error {
	switch {
	case f.Yes:
		return nil
	case !IsTerminal(call.Stdin):
		return fmt.Errorf("%s. It cannot be undone: give --yes", what)
	}
	fmt.Fprintf(call.Stderr, "%s. It cannot be undone. Do it? [y/N] ", what)
	line, err := bufio.NewReader(call.Stdin).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(call.Stderr)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}

// IsTerminal reports whether a stream is a terminal, where a person can answer.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
