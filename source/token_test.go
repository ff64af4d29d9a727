package source_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"carillon/source"
)

func TestBearerToken(t *testing.T) {
	const token = "carillon_Ab-9._~+/="
	for name, row := range map[string]struct {
		values []string
		want   source.Token
		err    error
	}{
		"as it should be":         {[]string{"Bearer " + token}, token, nil},
		"in small letters":        {[]string{"bearer " + token}, token, nil},
		"in great letters":        {[]string{"BEARER " + token}, token, nil},
		"with more spaces":        {[]string{"  Bearer   " + token + " "}, token, nil},
		"none":                    {nil, "", source.ErrNoToken},
		"an empty header":         {[]string{""}, "", source.ErrNoToken},
		"another scheme":          {[]string{"Basic YTpi"}, "", source.ErrNoToken},
		"a scheme that begins so": {[]string{"Bearers x"}, "", source.ErrNoToken},
		"no scheme":               {[]string{token}, "", source.ErrNoToken},
		"two headers":             {[]string{"Bearer " + token, "Bearer " + token}, "", source.ErrMalformed},
		"two headers, one Bearer": {[]string{"Bearer " + token, "Basic YTpi"}, "", source.ErrMalformed},
		"a scheme alone":          {[]string{"Bearer"}, "", source.ErrMalformed},
		"two tokens":              {[]string{"Bearer a b"}, "", source.ErrMalformed},
		"a list":                  {[]string{"Bearer a, Bearer b"}, "", source.ErrMalformed},
		"a tab for the space":     {[]string{"Bearer\ta"}, "", source.ErrNoToken},
		"padding alone":           {[]string{"Bearer =="}, "", source.ErrMalformed},
		"padding in the middle":   {[]string{"Bearer a=b"}, "", source.ErrMalformed},
		"a parameter":             {[]string{`Bearer token="a"`}, "", source.ErrMalformed},
		"letters of no token":     {[]string{"Bearer t\u00f6ken"}, "", source.ErrMalformed},
		"bytes that are no UTF-8": {[]string{"Bearer \xff\xfe"}, "", source.ErrMalformed},
		"more than any token has": {[]string{"Bearer " + strings.Repeat("a", 513)}, "", source.ErrMalformed},
		"as long as there may be": {[]string{"Bearer " + strings.Repeat("a", 512)}, source.Token(strings.Repeat("a", 512)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := source.BearerToken(row.values)
			if got != row.want || !errors.Is(err, row.err) {
				t.Errorf("got %q, %v; want %q, %v", string(got), err, string(row.want), row.err)
			}
			if err != nil && len(row.values) > 0 && strings.Contains(err.Error(), "carillon_") {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
}

// Each token is another, has 256 bits, and is one by the syntax of RFC 6750.
func TestNewToken(t *testing.T) {
	seen := map[source.Token]bool{}
	for range 1000 {
		token := source.NewToken()
		rest, ok := strings.CutPrefix(string(token), "carillon_")
		if !ok || len(rest) != 43 || seen[token] {
			t.Fatalf("%q", string(token))
		}
		seen[token] = true
		if got, err := source.BearerToken([]string{"Bearer " + string(token)}); err != nil || got != token {
			t.Fatalf("%q, %v", string(got), err)
		}
	}
}

// Tokens and their hashes do not appear where something is printed or logged.
func TestTokensAreHidden(t *testing.T) {
	s, token, err := source.New("name", []string{"https://a.example/"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.TokenHash.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("a line", "token", token, "source", s, "hash", s.TokenHash)
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x|", token, token, token, token, token, token.String())
	fmt.Fprintf(&out, "%v %+v %#v %s", s, s, s, s.TokenHash)
	for _, secret := range []string{string(token), string(token[9:]), fmt.Sprint([]byte(token)[:4])} {
		if strings.Contains(out.String(), strings.Trim(secret, "[]")) {
			t.Errorf("the token shows: %s", out.String())
		}
	}
	if strings.Contains(strings.Split(out.String(), "\n")[1], string(text)) {
		t.Errorf("the hash shows: %s", out.String())
	}
	if _, err := json.Marshal(token); err == nil {
		t.Error("a token was written as JSON")
	}
	var again source.Hash
	if err := again.UnmarshalText(text); err != nil || again != token.Hash() {
		t.Errorf("the hash came back as another: %v", err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 64), string(text) + "0"} {
		if err := again.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a hash", bad)
		}
	}
}
