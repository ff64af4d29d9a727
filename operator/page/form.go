package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/operator"
)

// field is a field of a form that asks before a change.
type field struct {
	Name, Label, Value, Hint string
	Number                   bool
	Required                 bool
}

// hidden is what a form carries along.
type hidden struct{ Name, Value string }

// confirm is a page that says what a change does, with the form that makes it.
type confirm struct {
	About  string // what it is about: a callback, a topic, a name; foreign
	Says   []string
	Fields []field
	Hidden []hidden
	Button string
	Danger bool
	Back   string // where to go instead
}

// confirm shows it, with what is wrong with what was posted.
func (p *renderer) confirm(w http.ResponseWriter, r *http.Request, title, here string, c confirm, wrong error) {
	s := sheet{Title: title, Here: here, Body: c}
	s.Error = p.errorPageFor(r, wrong)
	p.show(w, r, "confirm", s)
}

// change shows what a change does. When its form is posted it makes the change, and goes on.
func (p *renderer) change(
	w http.ResponseWriter, r *http.Request, title, here string, c confirm,
	do func(ctx context.Context) error, then func() error,
) error {
	var wrong error
	if r.Method == http.MethodPost {
		ctx, cancel := ask(r)
		defer cancel()
		if wrong = do(ctx); wrong == nil {
			return then()
		}
	}
	p.confirm(w, r, title, here, c, wrong)
	return nil
}

// readForm reads what was posted.
func readForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf(
			"%w: the form cannot be read: it is broken or larger than %s", operator.ErrInvalid, size(maxForm),
		)
	}
	return nil
}

// invalid is a mistake in what was entered.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", operator.ErrInvalid, fmt.Sprintf(format, args...))
}

// seqOf reads a number of a notification. People write them as the page does, in threes.
func seqOf(values url.Values, name, label string) (delivery.Seq, error) {
	text := strings.Map(func(r rune) rune {
		if r == '\u202f' || r == ' ' || r == '\u00a0' {
			return -1
		}
		return r
	}, values.Get(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, invalid("%s must be a whole number, not %.40q", label, values.Get(name))
	}
	return delivery.Seq(n), nil
}

// durationOf reads a time like 90s, 10m, 24h or 3d.
func durationOf(values url.Values, name, label string) (time.Duration, error) {
	text := strings.ReplaceAll(strings.TrimSpace(values.Get(name)), " ", "")
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, invalid("%s must be a time like 90s, 10m, 24h or 3d, not %.40q", label, text)
	}
	return d, nil
}

func idOf(text, what string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, invalid(
			"%.80q is not the ID of a %s: it has the form 01234567-89ab-cdef-0123-456789abcdef", text, what,
		)
	}
	return id, nil
}
