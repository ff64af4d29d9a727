package notifier

import (
	"log/slog"
)

// Token is what the hub knows this Source by. It does not appear in logs or formatted
// output.
type Token string

// LogValue hides the token from logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// String hides the token from formatted output; convert with string(t) to use it.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return "[token]"
}

// GoString hides the token from %#v.
func (t Token) GoString() string { return t.String() }

// Tokens gives the token that goes with each POST to the hub, as Authorization: Bearer (RFC
// 6750). Its methods may be called from any goroutine and do not wait for a network.
type Tokens interface {
	// Token returns the token to send.
	Token() Token
	// Renew looks for another token, as the hub has refused one (401): a token that
	// was rotated is taken up without a restart. It returns the one to send from now on,
	// which may be the same. With an error that of before stays.
	Renew(refused Token) (Token, error)
}

// token is the one to send; "" for none.
func (c *Config) token() Token {
	if c.Tokens == nil {
		return ""
	}
	return c.Tokens.Token()
}
