package docs_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// curl implements the uses of curl in the pages, so that the tests need no curl. Unknown
// options are errors.
func curl(args []string, stdout, stderr io.Writer) int {
	c := curling{header: http.Header{}, stdout: stdout}
	if err := c.read(args); err != nil {
		fmt.Fprintln(stderr, "curl:", err)
		return 2
	}
	status, err := c.send()
	if err != nil {
		fmt.Fprintln(stderr, "curl:", err)
		return 7
	}
	if c.fail && status >= 400 {
		fmt.Fprintln(stderr, "curl: (22) the answer is", status)
		return 22
	}
	return 0
}

type curling struct {
	method, address  string
	header           http.Header
	data             []string
	form, show, fail bool
	asQuery          bool // --get
	stdout           io.Writer
}

func (c *curling) read(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch arg {
		case "-s", "-S", "-sS", "-N":
			continue
		case "-i":
			c.show = true
			continue
		case "-f":
			c.fail = true
			continue
		case "-G":
			c.asQuery = true
			continue
		}
		if !strings.HasPrefix(arg, "-") {
			c.address = arg
			continue
		}
		if len(args) == 0 {
			return fmt.Errorf("%s wants a value", arg)
		}
		if err := c.option(arg, args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	return nil
}

// option reads an option with a value.
func (c *curling) option(name, value string) error {
	switch name {
	case "-X":
		c.method = value
	case "-H":
		field, content, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("%q is no header", value)
		}
		c.header.Add(field, strings.TrimSpace(content))
	case "-d":
		c.data, c.form = append(c.data, value), true
	case "--data-urlencode":
		field, content, _ := strings.Cut(value, "=")
		c.data, c.form = append(c.data, field+"="+url.QueryEscape(content)), true
	case "--data-binary":
		if file, ok := strings.CutPrefix(value, "@"); ok {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			value = string(content)
		}
		c.data, c.form = append(c.data, value), true
	default:
		return fmt.Errorf("the option %s is not known to this test", name)
	}
	return nil
}

func (c *curling) send() (status int, err error) {
	data, method, address := strings.Join(c.data, "&"), http.MethodGet, c.address
	switch {
	case c.asQuery:
		address, data = address+"?"+data, ""
	case c.form:
		method = http.MethodPost
		if c.header.Get("Content-Type") == "" {
			c.header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	if c.method != "" {
		method = c.method
	}
	req, err := http.NewRequest(method, address, strings.NewReader(data))
	if err != nil {
		return 0, err
	}
	req.Header = c.header
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if c.show {
		fmt.Fprintf(c.stdout, "%s %s\n", resp.Proto, resp.Status)
		if err := resp.Header.Write(c.stdout); err != nil {
			return 0, err
		}
		fmt.Fprintln(c.stdout)
	}
	_, err = io.Copy(c.stdout, resp.Body)
	return resp.StatusCode, err
}
