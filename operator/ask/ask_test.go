package ask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/operator/ask"
)

// callTo is the call of a command that asks the listener with this URL.
func callTo(listener string, out io.Writer) ask.Call {
	return ask.Call{
		Open: func(ctx context.Context, _ ask.Part) (*ask.Client, error) {
			return ask.AtListener(ctx, listener, "", nil)
		},
		Absent: func() error { return nil }, Stdout: out, Stderr: out,
	}
}

// Another program's answer does nothing to the terminal, and forges no line.
func TestAnswersAreLegible(t *testing.T) {
	const evil = "bad \x1b]0;OWNED\a \u009b31m\nhub: forged"
	list, err := json.Marshal(
		operator.TopicPage{
			Topics: []operator.Topic{{Topic: evil}}, Next: evil,
			Coverage: operator.Coverage{MissingShards: 3, Trouble: []string{evil}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := json.Marshal(map[string]any{"detail": evil})
	if err != nil {
		t.Fatal(err)
	}
	level, err := json.Marshal(api.LevelResponse{Level: evil})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/version":
			version, _ := json.Marshal(api.VersionResponse{Version: evil})
			_, _ = w.Write(version)
		case "/api/v1/topics":
			_, _ = w.Write(list)
		case "/api/v1/log-level":
			_, _ = w.Write(level)
		case "/api/v1/subscriptions":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write(refused)
		default:
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, evil)
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		command ask.Command
		fails   bool
	}{{&ask.Topics{}, false}, {&ask.Subscriptions{}, true}, {&ask.LogLevel{}, false}, {&ask.Show{}, true}} {
		var out bytes.Buffer
		err := test.command.Run(t.Context(), callTo(server.URL, &out))
		said := fmt.Sprint(&out, err)
		if (err != nil) != test.fails || !strings.Contains(said, "OWNED") || strings.ContainsAny(said, "\x1b\a\u009b") || strings.Contains(said, "\nhub: forged") {
			t.Errorf("%T: %v, %q", test.command, err, said)
		}
	}
}
