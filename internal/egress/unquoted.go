package egress

import "strings"

// maxError bounds the text of an Unquoted error, bytes.
const maxError = 300

// Unquoted returns the error of a request without the peer's text. net/http quotes answers that it
// does not understand, up to the whole header. A stranger's text has no place in a log: it may contain
// our request, such as the address of a callback that others must not know. It is still the same error
// to errors.Is and errors.As.
func Unquoted(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	before, _, quoted := strings.Cut(text, `"`)
	if !quoted && len(text) <= maxError {
		return err
	}
	return &unquoted{strings.ToValidUTF8(before[:min(len(before), maxError)], "") + "…", err}
}

type unquoted struct {
	text string
	err  error
}

func (u *unquoted) Error() string { return u.text }

// Unwrap returns the error as it came.
func (u *unquoted) Unwrap() error { return u.err }
