package notifier

import (
	"log/slog"
	"net/http"
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

// renewed tells whether there is another token to try after one was refused.
func (ch *channel) renewed(got answer) bool {
	if ch.n.cfg.Tokens == nil || got.status != http.StatusUnauthorized {
		return false
	}
	token, err := ch.n.cfg.Tokens.Renew(got.sent)
	if err != nil {
		ch.log.Error("the token for the hub cannot be read again; the one of before stays", "error", err)
		return false
	}
	return token != got.sent
}

// hint says what to do about a refusal; "" where the hub's reason says it all.
func (got answer) hint() string {
	switch {
	case got.status == http.StatusUnauthorized && got.sent == "":
		return "the hub takes registered Sources only: its operator makes a token (hub source add), for the file of --hub-token-file or for NOTIFIER_HUB_TOKEN"
	case got.status == http.StatusUnauthorized:
		return "the hub does not know the token: it was revoked, or rotated. Put the one that its operator gives you where that was: the file of --hub-token-file is read again, NOTIFIER_HUB_TOKEN needs a restart"
	case got.status == http.StatusForbidden && got.sent != "":
		return "the token may not be for this topic: the operator of the hub can register a prefix that covers it"
	}
	return ""
}
