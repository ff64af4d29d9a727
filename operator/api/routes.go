package api

import (
	"net/http"

	"github.com/gorilla/mux"
)

// routes are all operations.
func routes() []route {
	return []route{
		{method: http.MethodGet, path: "/overview", serve: (*api).overview},
		{method: http.MethodGet, path: "/topics", parameters: []string{"contains", "failing", "after", "limit"}, serve: (*api).topics},
		{method: http.MethodGet, path: "/topic", parameters: []string{"topic"}, serve: (*api).topic},
		{method: http.MethodPost, path: "/topic/trim", serve: (*api).trim},
		{method: http.MethodGet, path: "/notifications", parameters: []string{"topic", "before", "limit"}, serve: (*api).notifications},
		{method: http.MethodGet, path: "/notifications/{id}", parameters: []string{"topic"}, serve: (*api).notification},
		{
			method: http.MethodGet, path: "/subscriptions",
			parameters: []string{
				"topic", "contains", "host", "state", "gapped", "lag_over", "lease_under", "after", "limit",
			},
			serve: (*api).subscriptions,
		},
		{method: http.MethodGet, path: "/subscriptions/{id}", serve: (*api).subscription},
		{method: http.MethodDelete, path: "/subscriptions/{id}", parameters: []string{"reason"}, serve: (*api).remove},
		{method: http.MethodPost, path: "/subscriptions/{id}/retry", serve: (*api).retry},
		{method: http.MethodPost, path: "/subscriptions/{id}/replay", serve: (*api).replay},
		{method: http.MethodGet, path: "/sources", serve: (*api).sources},
		{method: http.MethodPost, path: "/sources", serve: (*api).addSource},
		{method: http.MethodPost, path: "/sources/{name}/rotate", serve: (*api).rotateSource},
		{method: http.MethodDelete, path: "/sources/{name}", serve: (*api).revokeSource},
		{method: http.MethodGet, path: "/events", serve: (*api).events, long: true},
		{method: http.MethodGet, path: "/listen", parameters: []string{"topic"}, serve: (*api).listen, long: true},
		{method: http.MethodGet, path: "/check", parameters: []string{"url"}, serve: (*api).check, long: true},
		{method: http.MethodGet, path: "/log-level", serve: (*api).logLevel},
		{method: http.MethodPut, path: "/log-level", serve: (*api).setLogLevel},
		{method: http.MethodGet, path: "/version", serve: (*api).version},
		{method: http.MethodPost, path: "/backup", serve: (*api).backup, long: true},
		{method: http.MethodGet, path: "/openapi.yaml", serve: (*api).openAPI},
	}
}

// API serves the paths below /api/v1/, to every client that reaches it: Config.Auth with Handler
// checks clients, or the permissions of a socket do.
func API(cfg Config) http.Handler {
	a := &api{Config: cfg, streams: make(chan struct{}, maxStreams)}
	r := mux.NewRouter()
	r.UseEncodedPath() // escaped characters belong to a name, and match no route
	byPath := map[string]operations{}
	for _, o := range routes() {
		if byPath[o.path] == nil {
			byPath[o.path] = operations{}
			r.Path(apiRoot + o.path).Handler(a.handle(byPath[o.path]))
		}
		byPath[o.path][o.method] = o
	}
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := Refusal(
			http.StatusNotFound, "There is no such path in the API: "+apiRoot+"/openapi.yaml lists what there is.",
		)
		p.Parameter = "path" // by that a program distinguishes it from a missing thing
		a.refuse(w, r, p)
	})
	return r
}
