package subscription_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"carillon/subscription"
)

// TestSecretsAreHidden: whatever a secret is written with, alone or in what has one, it
// does not show.
func TestSecretsAreHidden(t *testing.T) {
	const canary = "c4nary-5ecret"
	sub := subscription.Subscription{Topic: "t", Callback: "http://c.example/capability", Secret: canary}
	for _, value := range []any{
		subscription.Secret(canary), sub, &sub,
		[]subscription.Subscription{sub},
		map[string]subscription.Secret{"s": canary},
		subscription.Request{Secret: canary},
		&subscription.Wish{Secret: canary},
		struct{ S any }{sub},
	} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3v", "%!"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		for _, encode := range []func(any) error{json.NewEncoder(&out).Encode, xml.NewEncoder(&out).Encode} {
			_ = encode(value) // what it cannot write it does not show
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("said", "value", value)
		}
		if text := out.String(); strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) ||
			strings.Contains(text, fmt.Sprintf("%X", canary)) || strings.Contains(text, canary[:3]+"\n") {
			t.Errorf("%T shows the secret:\n%s", value, text)
		}
	}
	if text := fmt.Sprint(subscription.Secret("")); text != "" {
		t.Errorf("no secret is shown as %q", text)
	}
}
