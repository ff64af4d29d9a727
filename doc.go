// Package carillon is a whole hub for Go programs: a WebSub hub (W3C Recommendation) that relays
// ResourceSync change notifications (Change Notification 1.0.1), in order for each subscriber, with
// nothing lost. Command hub is this package with flags and listeners.
//
//	h, err := carillon.Open(carillon.Config{URL: "https://example.org/websub/", Store: "pebble:hub-data"})
//	...
//	mux.Handle("/websub/", h.Handler()) // at the path of URL, on the program's own server
//	err = h.Run(ctx)                    // until ctx ends
//
// The program that opens a hub has these duties:
//
//   - Its server answers at Config.URL by Handler, with the Host header and the path as they
//     were sent, and with TLS if the URL is https.
//   - Operator is served where only operators reach it, or with Config.OperatorToken, by TLS.
//   - Run is called once, and the process waits for its end.
//   - One Pebble directory has one hub. Hubs on a Redis share it, and have the same URL.
//
// Several hubs in one process work if each has a store, a URL and, with Config.Registerer,
// metrics of its own. No flag, variable or signal is read, but for the variables of traces
// (OTEL_…), of proxies (if Config.Proxy is environment, or to log that one is ignored) and GOGC
// (with Config.OwnProcess).
package carillon
