package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"carillon/source"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestValidate(t *testing.T) {
	good, _, err := source.New("name", []string{"https://a.example/x"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		change func(s *source.Source)
		want   string
	}{
		"a name of nothing":       {func(s *source.Source) { s.Name = "" }, "is not a name"},
		"a name with a space":     {func(s *source.Source) { s.Name = "a b" }, "is not a name"},
		"a name that is a path":   {func(s *source.Source) { s.Name = "../a" }, "is not a name"},
		"a name with an end":      {func(s *source.Source) { s.Name = "a\n" }, "is not a name"},
		"a long name":             {func(s *source.Source) { s.Name = strings.Repeat("a", 65) }, "is not a name"},
		"no prefix":               {func(s *source.Source) { s.Prefixes = nil }, "needs a topic prefix"},
		"too many":                {func(s *source.Source) { s.Prefixes = make([]string, 101) }, "100 topic prefixes at most"},
		"no token":                {func(s *source.Source) { s.TokenHash = source.Hash{} }, "no token"},
		"no time":                 {func(s *source.Source) { s.Issued = time.Time{} }, "no times"},
		"a prefix with a query":   {func(s *source.Source) { s.Prefixes[0] += "?q=1" }, "query"},
		"a prefix without a host": {func(s *source.Source) { s.Prefixes[0] = "https:///x" }, "absolute URL"},
		"a prefix with a user":    {func(s *source.Source) { s.Prefixes[0] = "https://u@a.example/" }, "user name"},
		"a prefix with dots":      {func(s *source.Source) { s.Prefixes[0] += "/%2e%2e/" }, ". or .."},
		"dots encoded twice":      {func(s *source.Source) { s.Prefixes[0] += "/%252e%252e/" }, ". or .."},
		"a fragment":              {func(s *source.Source) { s.Prefixes[0] += "#x" }, "fragment"},
		"a backslash":             {func(s *source.Source) { s.Prefixes[0] += `\x` }, "backslash"},
		"a long prefix":           {func(s *source.Source) { s.Prefixes[0] += strings.Repeat("x", 2048) }, "longer than"},
	} {
		s := good
		s.Prefixes = []string{good.Prefixes[0]}
		row.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q", name, err, row.want)
		}
		if err := source.Register(t.Context(), nil, s); err == nil || errors.Is(err, source.ErrExists) {
			t.Errorf("%s was registered: %v", name, err)
		}
	}
}
