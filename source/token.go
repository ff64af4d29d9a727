package source

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// tokenPrefix begins every token, so that people and scanners for secrets know one
// where they see it.
const tokenPrefix = "carillon_"

// tokenBytes are the random bytes of a token: 256 bits.
const tokenBytes = 32

// maxToken is the longest token that is looked up, bytes. No token of ours is nearly as
// long; it stops hashing whatever a stranger sends.
const maxToken = 512

// Token is what a Source proves itself by. It does not appear in logs or formatted
// output.
type Token string

// NewToken returns a new random token.
func NewToken() Token {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // it never fails (crypto/rand)
	return Token(tokenPrefix + base64.RawURLEncoding.EncodeToString(b))
}

// Hash returns what is kept of the token.
func (t Token) Hash() Hash { return sha256.Sum256([]byte(t)) }

const hidden = "[token]"

// LogValue hides the token from logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// String hides the token from formatted output; convert with string(t) to use it.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return hidden
}

// GoString hides the token from %#v.
func (t Token) GoString() string { return t.String() }

// MarshalText refuses: no document has a token in it.
func (t Token) MarshalText() ([]byte, error) { return nil, errors.New("a token is not written down") }

// Hash is the SHA-256 of a token. It does not allow publishing. It is hidden in output all the
// same, as no reader needs it.
type Hash [sha256.Size]byte

// LogValue hides the hash from logs.
func (h Hash) LogValue() slog.Value { return slog.StringValue(h.String()) }

// String hides the hash from formatted output.
func (h Hash) String() string { return "[hash]" }

// GoString hides the hash from %#v.
func (h Hash) GoString() string { return h.String() }

// MarshalText writes the hash in hexadecimal, for exports.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a hash of a token has %d hexadecimal digits", hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Errors of BearerToken.
var (
	// ErrNoToken: no Bearer token was sent.
	ErrNoToken = errors.New("no token")
	// ErrMalformed: the header does not contain exactly one token (RFC 6750 §2.1).
	ErrMalformed = errors.New("not one well-formed token")
)

// BearerToken reads the values of the header Authorization (RFC 6750 §2.1): exactly one, with
// the scheme Bearer in any case, and a token of its syntax. Credentials of
// another scheme count as absent.
func BearerToken(values []string) (Token, error) {
	if len(values) == 0 {
		return "", ErrNoToken
	}
	if len(values) > 1 {
		return "", fmt.Errorf("%w: there is more than one Authorization header", ErrMalformed)
	}
	scheme, rest, _ := strings.Cut(strings.Trim(values[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNoToken
	}
	token := strings.TrimLeft(rest, " ")
	if len(token) > maxToken || !wellFormed(token) {
		return "", fmt.Errorf("%w: it has not the syntax of one", ErrMalformed)
	}
	return Token(token), nil
}

// wellFormed reports whether token is a b64token (RFC 6750 §2.1).
func wellFormed(token string) bool {
	body := strings.TrimRight(token, "=")
	return body != "" && !strings.ContainsFunc(body, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/", r))
	})
}
