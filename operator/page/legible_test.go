package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"carillon/operator/page"
)

// Texts of strangers do nothing to the text around them, and forms post them unchanged.
func TestForeignTextOnThePage(t *testing.T) {
	const foreign = "https://evil.example/\u202egpj.\u009b2J\u2066x"
	d := newFixture()
	d.topics[0].Topic = foreign
	h := page.New(page.Config{Service: d})
	for path, keeps := range map[string]bool{
		"/topics": false, "/topic?topic=" + url.QueryEscape(foreign): true, "/topic/trim?topic=" + url.QueryEscape(foreign): true,
		"/subscriptions?topic=" + url.QueryEscape(foreign): true, "/listen?topic=" + url.QueryEscape(foreign): true, "/find?q=" + url.QueryEscape(foreign): false,
	} {
		rec := get(t, h, path)
		shown := rec.Body.String()
		if strings.Contains(shown, "value=\""+foreign) != keeps {
			t.Errorf("%s: the topic is in a form: %t", path, !keeps)
		}
		shown = strings.ReplaceAll(shown, "value=\""+foreign, "")
		if odd := strings.IndexFunc(
			shown,
			func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Zs, r) },
		); odd >= 0 {
			t.Errorf("%s: %d: it shows %.40q", path, rec.Code, shown[odd:])
		}
		if rec.Code == http.StatusOK && !strings.Contains(rec.Body.String(), "evil.example") {
			t.Errorf("%s: the topic is not there", path)
		}
	}
}
