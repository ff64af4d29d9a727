package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"carillon/check"
	"carillon/operator"
	"carillon/operator/api"
)

// readDocument reads the file and finds it valid.
var readDocument = sync.OnceValues(func() (*openapi3.T, error) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// readRouter finds the operation of a request.
var readRouter = sync.OnceValues(func() (routers.Router, error) {
	doc, err := readDocument()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// document is the file, which is valid.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every operation is in the file with its parameters, and nothing else is.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	doc := document(t)
	served := map[string]bool{}
	for _, r := range api.Routes() {
		served[r.Method+" "+r.Path] = true
		item := doc.Paths.Find(r.Path)
		if item == nil || item.GetOperation(r.Method) == nil {
			t.Errorf("%s %s is not in the file", r.Method, r.Path)
			continue
		}
		var documented []string
		for _, p := range item.GetOperation(r.Method).Parameters {
			if p.Value.In == "query" {
				documented = append(documented, p.Value.Name)
			}
		}
		slices.Sort(documented)
		if slices.Sort(r.Parameters); !slices.Equal(documented, r.Parameters) {
			t.Errorf("%s %s takes %q; the file says %q", r.Method, r.Path, r.Parameters, documented)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !served[method+" "+path] {
				t.Errorf("%s %s is in the file, and nobody serves it", method, path)
			}
		}
	}
}

// typesOf are the types that the schemas describe.
var typesOf = map[string]any{
	"Problem": api.Problem{}, "Version": api.VersionResponse{}, "LogLevel": api.LevelResponse{},
	"ReplayRequest": api.ReplayRequest{}, "TrimRequest": api.TrimRequest{}, "SourceRequest": api.SourceRequest{}, "TokenRequest": api.TokenRequest{},
	"Coverage": operator.Coverage{}, "Counts": operator.Counts{}, "Process": operator.Process{}, "Check": operator.Check{},
	"Connections": operator.Connections{},
	"Step":        operator.Step{}, "Overview": operator.Overview{}, "Topic": operator.Topic{}, "TopicPage": operator.TopicPage{},
	"TrimResult": operator.TrimResult{}, "Tally": operator.Tally{}, "Notification": operator.Notification{},
	"NotificationPage": operator.NotificationPage{}, "NotificationDetail": operator.NotificationDetail{}, "Missing": operator.Missing{},
	"Subscription": operator.Subscription{}, "SubscriptionPage": operator.SubscriptionPage{}, "SubscriptionDetail": operator.SubscriptionDetail{},
	"Replay": operator.Replay{}, "Attempt": operator.Attempt{}, "Gap": operator.Gap{}, "Source": operator.Source{},
	"NewSource": operator.NewSource{}, "TestEvent": operator.TestEvent{},
	"Finding": check.Finding{}, "CheckSummary": check.Summary{},
}

// Every field of every type is in its schema, as one that must be there or may be missing,
// and the other way round.
func TestOpenAPIHasEveryField(t *testing.T) {
	schemas := document(t).Components.Schemas
	for name := range schemas {
		if typesOf[name] == nil {
			t.Errorf("the schema %s is of no type that the test knows", name)
		}
	}
	for name, example := range typesOf {
		if schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		fields, documented := fieldsOf(reflect.TypeOf(example)), map[string]string{}
		collect(schemas[name].Value, documented)
		if !maps.Equal(fields, documented) {
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if fields[field] != documented[field] {
					t.Errorf("%s.%s is %q in the type and %q in the file", name, field, fields[field], documented[field])
				}
			}
			for _, field := range slices.Sorted(maps.Keys(documented)) {
				if _, there := fields[field]; !there {
					t.Errorf("%s.%s is in the file and not in the type", name, field)
				}
			}
		}
	}
}

// fieldsOf are the names in JSON of a type's fields, with their kind and whether they may be missing.
func fieldsOf(of reflect.Type) map[string]string {
	all := map[string]string{}
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			maps.Copy(all, fieldsOf(f.Type))
			continue
		}
		all[name] = kindOf(f.Type)
		if options != "" {
			all[name] += " maybe"
		}
	}
	return all
}

func kindOf(t reflect.Type) string {
	if t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()) {
		return "string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "object"
	}
	return "integer"
}

// collect are the properties of a schema, as fieldsOf has them.
func collect(s *openapi3.Schema, into map[string]string) {
	for _, part := range s.AllOf {
		collect(part.Value, into)
	}
	for name, property := range s.Properties {
		into[name] = property.Value.Type.Slice()[0]
		if !slices.Contains(s.Required, name) {
			into[name] += " maybe"
		}
	}
}

// call is a request that an operation takes.
type call struct{ query, body string }

// calls has one for each operation.
var calls = map[string]call{
	"GET /topics":                     {"?contains=a&failing=true&after=k&limit=10", ""},
	"GET /topic":                      {"?topic=https://source.test/", ""},
	"POST /topic/trim":                {"", `{"topic":"https://source.test/","before_seq":3}`},
	"GET /notifications":              {"?topic=https://source.test/&before=9&limit=1000", ""},
	"GET /notifications/{id}":         {"?topic=https://source.test/", ""},
	"GET /subscriptions":              {"?topic=https://source.test/&contains=a&host=b&state=behind&gapped=false&lag_over=15m&lease_under=90&after=" + someID.String() + "&limit=1", ""},
	"DELETE /subscriptions/{id}":      {"?reason=moved+away", ""},
	"POST /subscriptions/{id}/replay": {"", `{"from_seq":2,"last_seq":4}`},
	"POST /sources":                   {"", `{"name":"one","topic_prefixes":["https://source.test/"]}`},
	"POST /sources/{name}/rotate":     {"", `{}`},
	"GET /listen":                     {"?topic=https://source.test/", ""},
	"GET /check":                      {"?url=https://source.test/", ""},
	"PUT /log-level":                  {"", `{"level":"debug"}`},
}

// request is the one for an operation.
func (h *fixture) request(t *testing.T, r api.Route) *http.Request {
	t.Helper()
	c := calls[r.Method+" "+r.Path]
	path := strings.NewReplacer("{id}", someID.String(), "{name}", "one").Replace(r.Path)
	req, err := http.NewRequestWithContext(t.Context(), r.Method, h.address+"/api/v1"+path+c.query, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// ask sends a request and holds the answer, and with good also the request, to the file.
func (h *fixture) ask(t *testing.T, req *http.Request, good bool) (status int, body string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := readSome(resp)
	if err != nil {
		t.Fatal(err)
	}
	plain := req.Clone(t.Context())
	plain.URL.Host, plain.URL.Scheme, plain.Host = "", "", ""
	if req.GetBody != nil {
		plain.Body, _ = req.GetBody()
	}
	router, err := readRouter()
	if err != nil {
		t.Fatal(err)
	}
	found, parameters, err := router.FindRoute(plain)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	asked := &openapi3filter.RequestValidationInput{
		Request: plain, PathParams: parameters, Route: found,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if good {
		if err := openapi3filter.ValidateRequest(t.Context(), asked); err != nil {
			t.Errorf("%s %s is not as the file says: %v", req.Method, req.URL.Path, err)
		}
	}
	answered := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: resp.StatusCode, Header: resp.Header, Options: asked.Options,
	}
	answered.SetBodyBytes(text)
	if err := openapi3filter.ValidateResponse(t.Context(), answered); err != nil {
		t.Errorf("%s %s is answered with %d %s, which is not as the file says: %v", req.Method, req.URL.Path, resp.StatusCode, text, err)
	}
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s: an answer may be kept", req.Method, req.URL.Path)
	}
	return resp.StatusCode, string(text)
}

// readSome reads an answer, or what a stream says first.
func readSome(resp *http.Response) ([]byte, error) {
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return io.ReadAll(resp.Body)
	}
	var text []byte
	for !strings.Contains(string(text), "event:") {
		piece := make([]byte, 4096)
		n, err := resp.Body.Read(piece)
		text = append(text, piece[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return text, nil
}

func TestMain(m *testing.M) {
	text := func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		all, err := io.ReadAll(body)
		return string(all), err
	}
	openapi3filter.RegisterBodyDecoder("text/event-stream", text)
	openapi3filter.RegisterBodyDecoder("application/yaml", text)
	openapi3filter.RegisterBodyDecoder("application/x-tar", text)
	os.Exit(m.Run())
}

// Every operation is answered as the file says, with every field there is and with the fewest.
func TestAnswersAreAsTheFileSays(t *testing.T) {
	for _, bare := range []bool{false, true} {
		h := newFixture(t, func(c *api.Config) {
			c.Backup = func(context.Context) (api.Backup, error) { return fakeBackup{}, nil }
		})
		h.service.bare = bare
		for _, r := range api.Routes() {
			if r.Path == "/listen" && bare {
				continue // its service has listened
			}
			if status, body := h.ask(t, h.request(t, r), true); status >= 300 || strings.Contains(body, "null") {
				t.Errorf("%s %s: %d %s", r.Method, r.Path, status, body)
			}
		}
	}
}

// provoked says how each status that is not a success comes about.
var provoked = map[string]func(h *fixture, req *http.Request){
	"400": func(_ *fixture, req *http.Request) { req.URL.RawQuery += "&of=tomorrow" },
	"403": func(_ *fixture, req *http.Request) { req.Header.Set("Sec-Fetch-Site", "cross-site") },
	"404": func(h *fixture, _ *http.Request) { h.service.err = fmt.Errorf("topic x: %w", operator.ErrNotFound) },
	"409": func(h *fixture, _ *http.Request) {
		h.service.err = fmt.Errorf("%w: it was ended", operator.ErrConflict)
	},
	"413": func(_ *fixture, req *http.Request) {
		large := `{"x":"` + strings.Repeat("x", api.MaxRequest) + `"}`
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(large)), int64(len(large))
	},
	"415": func(_ *fixture, req *http.Request) { req.Header.Set("Content-Type", "text/plain") },
	"500": func(h *fixture, _ *http.Request) { h.service.err = errors.New("of the inside") },
	"503": func(h *fixture, _ *http.Request) { h.service.err = fmt.Errorf("the log: %w", operator.ErrUnavailable) },
}

// Every error that the file names for an operation comes about, and is as it says.
func TestErrorsAreAsTheFileSays(t *testing.T) {
	for _, r := range api.Routes() {
		for status := range document(t).Paths.Find(r.Path).GetOperation(r.Method).Responses.Map() {
			if status < "400" || status == "401" || status == "429" {
				continue
			}
			h := newFixture(t, func(c *api.Config) { spoil(c, r, status) })
			req := h.request(t, r)
			provoked[status](h, req)
			got, body := h.ask(t, req, false)
			if fmt.Sprint(got) != status {
				t.Errorf("%s %s: %d %s; want %s", r.Method, r.Path, got, body, status)
			}
			if strings.Contains(body, "of the inside") {
				t.Errorf("%s %s tells what went wrong inside: %s", r.Method, r.Path, body)
			}
		}
	}
}

// fakeBackup is a backup of nothing.
type fakeBackup struct{}

func (fakeBackup) Write(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "tar")
	return err
}

func (fakeBackup) Close() error { return nil }

// spoil takes away what an operation needs that asks no desk.
func spoil(c *api.Config, r api.Route, status string) {
	service := c.Service.(*fakeService)
	switch {
	case r.Path == "/backup" && status != "404":
		c.Backup = func(context.Context) (api.Backup, error) { return nil, service.err }
	case r.Path == "/log-level" && status == "409":
		c.Level = nil
	case (r.Path == "/events" || r.Path == "/listen" || r.Path == "/check") && status == "503":
		c.Service = nil
	}
}

// Clients without a token, and with too many wrong ones, get the answers in the file.
func TestRefusalsAreAsTheFileSays(t *testing.T) {
	for _, r := range api.Routes() {
		h := newFixture(t, func(c *api.Config) {
			c.Auth = api.NewAuth(func() string { return goodToken }, c.Logger)
		})
		if status, body := h.ask(t, h.request(t, r), false); status != http.StatusUnauthorized {
			t.Errorf("%s %s: %d %s; want 401", r.Method, r.Path, status, body)
		}
		for n := range api.MaxWrong + 1 {
			req := h.request(t, r)
			req.Header.Set("Authorization", "Bearer wrong")
			want := http.StatusUnauthorized
			if n == api.MaxWrong {
				want = http.StatusTooManyRequests
			}
			if status, body := h.ask(t, req, false); status != want {
				t.Errorf("%s %s, wrong token %d: %d %s; want %d", r.Method, r.Path, n, status, body, want)
			}
		}
		if h.service.was() != "" {
			t.Errorf("%s %s: the service was asked %s", r.Method, r.Path, h.service.was())
		}
	}
}
