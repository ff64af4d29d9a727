package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"carillon/cmd/internal/program"
	"carillon/internal/egress"
	"carillon/internal/legible"
	"carillon/operator"
)

// The commands of an operator (hub topics, hub show, …) ask the API, as the page does: of the
// hub that has the store open, by its socket; of a store that no hub works on, in this process; of the
// hubs on a Redis, as one more that holds nothing; or, with --ask, of the hub at an operator's
// listener. What they print with --json is the API's answer.

// askFlags are those of every command that asks.
type askFlags struct {
	storeFlags

	Ask            string `env:"-" placeholder:"URL" help:"Ask the hub whose operator's listener is at this URL, as http://127.0.0.1:8081, and not the hub or the store of --store."`
	AdminTokenFile string `placeholder:"FILE" help:"With --ask: file with the operator's token, where that hub wants one. $HUB_ADMIN_TOKEN may have the token itself."`
	AdminTLSCert   string `name:"admin-tls-cert" placeholder:"FILE" help:"With --ask https://…: the certificate that the hub has as --admin-tls-cert. It is good whatever the address is; another must be one that this machine trusts."`
	JSON           bool   `name:"json" env:"-" help:"Print the API's answer as it is."`
}

// quiet: what the command has to say are its own lines.
func (*askFlags) quiet() {}

// Validate refuses what cannot be asked.
func (f *askFlags) Validate() error {
	if f.Ask == "" {
		return f.storeFlags.Validate()
	}
	u, err := url.Parse(f.Ask)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("--ask %q is not the URL of an operator's listener, as http://127.0.0.1:8081 is", f.Ask)
	}
	return nil
}

// open finds who is asked. Close it.
func (f *askFlags) open(ctx context.Context, logger *slog.Logger) (*control, error) {
	if f.Ask != "" {
		return f.openListener(ctx, logger)
	}
	if err := f.refuseNothing(); err != nil {
		return nil, err
	}
	return openOperator(ctx, f.storeFlags, logger)
}

// openListener asks at an operator's listener.
func (f *askFlags) openListener(ctx context.Context, logger *slog.Logger) (*control, error) {
	c := &control{Online: true, listener: true, base: strings.TrimRight(f.Ask, "/") + "/api/v1", close: func() error { return nil }}
	token, err := readAdminToken(f.AdminTokenFile, logger)
	if err != nil {
		return nil, err
	}
	if c.token = token; token != "" && strings.HasPrefix(f.Ask, "http:") && !egress.LoopbackURL(f.Ask) {
		logger.Warn("the operator's token goes without TLS: whoever sees it can do with the hub what you can", "ask", f.Ask)
	}
	var trusting *tls.Config
	if f.AdminTLSCert != "" {
		if trusting, err = program.Trusting(f.AdminTLSCert); err != nil {
			return nil, fmt.Errorf("--admin-tls-cert %s: %w", f.AdminTLSCert, err)
		}
	}
	c.client = controlClient(dialListener, trusting)
	if err := c.greet(ctx); err != nil {
		refused, is := errors.AsType[refusal](err)
		if is && refused.status == http.StatusUnauthorized {
			err = fmt.Errorf("%w: give --admin-token-file FILE, or HUB_ADMIN_TOKEN", err)
		}
		if _, is := errors.AsType[*tls.CertificateVerificationError](err); is && f.AdminTLSCert == "" {
			err = fmt.Errorf("%w: give --admin-tls-cert FILE, the hub's certificate", err)
		}
		return nil, errors.Join(fmt.Errorf("--ask %s: %w", f.Ask, err), c.Close())
	}
	return c, nil
}

// with calls do with who is asked.
func (f *askFlags) with(ctx context.Context, logger *slog.Logger, do func(*control) error) error {
	c, err := f.open(ctx, logger)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// maxAnswer is the largest answer that is read, bytes. It stops who is asked and is no hub.
const maxAnswer = 64 << 20

// read asks, and returns the answer as it came and in out.
func (c *control) read(ctx context.Context, path string, out any) (json.RawMessage, error) {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// do is call that also returns the answer as it came; {} where there is none.
func (c *control) do(ctx context.Context, method, path string, in, out any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, controlWithin)
	defer cancel()
	body, err := c.stream(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer drop(body)
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return json.RawMessage("{}"), nil
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return nil, fmt.Errorf("the hub's answer is not understood: %w", err)
		}
	}
	return text, nil
}

// printJSON prints an answer so that people can read it, too. What would do something to a
// terminal is escaped, which is the same JSON: such characters are in its strings alone.
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
func (f *pageFlags) Validate() error {
	if f.Limit < 1 || f.Limit > operator.MaxLimit {
		return fmt.Errorf("--limit must be from 1 to %d, not %d", operator.MaxLimit, f.Limit)
	}
	return nil
}

// pages asks for one page after the other, by the parameter that says where one begins. show is
// called with each and returns where the next begins; "": there is none.
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

// query are the parameters of a question that have a value.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// tellCoverage says on stderr what an answer is not about.
func tellCoverage(stderr io.Writer, c operator.Coverage) {
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
	Yes bool `env:"-" help:"Do not ask whether it is meant. Needed where nobody can be asked, as standard input is no terminal."`
}

// sure asks on a terminal whether it is meant. Elsewhere nobody can be asked, and it was
// meant only with --yes: what cannot be undone does not happen by a script that was not
// written for it.
func (f *sureFlags) sure(stdin io.Reader, stderr io.Writer, what string) error {
	switch {
	case f.Yes:
		return nil
	case !isTerminal(stdin):
		return fmt.Errorf("%s. It cannot be undone: give --yes", what)
	}
	fmt.Fprintf(stderr, "%s. It cannot be undone. Do it? [y/N] ", what)
	line, err := bufio.NewReader(stdin).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(stderr)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
