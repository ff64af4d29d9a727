package carillon

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"carillon/internal/house"
	"carillon/internal/release"
)

// Version is the version of this package and of the commands.
const Version = release.Version

// Errors of a Hub. Open and Run wrap others, in words for an operator.
var (
	// ErrRan is returned by a second call of Run.
	ErrRan = house.ErrRan
	// ErrClosed is returned by Run after Close.
	ErrClosed = house.ErrClosed
)

// Hub is a whole hub. Open makes one. Its methods may be called from any goroutine.
type Hub struct{ house *house.House }

// Open opens the store and builds all parts of a hub; nothing runs before Run. A missing Pebble
// directory is made. It is locked: while another hub or command has it open, in this process or
// another, Open fails. Redis is not asked yet: Run waits for it.
//
// Open returns all errors of the fields of cfg, by their names. It fails if the store cannot be
// opened, if the process may open fewer than 64 files, and for errors of cfg.Registerer. After an
// error nothing stays open.
func Open(cfg Config) (*Hub, error) {
	h, err := house.Open(house.Config(cfg), house.Hooks{})
	if err != nil {
		return nil, err
	}
	return &Hub{h}, nil
}

// Handler returns what publishers and subscribers use: the hub URI (WebSub §4, §5.1, CN §4) and what
// is below it. It expects requests at the path of Config.URL, unchanged: no prefix is stripped.
// Requests may come before Run and after its end, and get 503 then. The server that it is used with should
// bound what a client may cost: its headers, and how long it may take to send and to read.
func (h *Hub) Handler() http.Handler { return h.house.Handler() }

// Operator returns the operator's listener, from the path / on: the page, the API below /api/v1/,
// /metrics, /healthz and /readyz. Do not expose it to the world: if Config.OperatorToken is nil, every
// client that reaches it is the operator. It answers from Open until Run has ended, so that the end
// can be watched.
func (h *Hub) Operator() http.Handler { return h.house.Operator() }

// Run works until ctx ends or a part fails, then ends in order: it waits for requests under way,
// then for deliveries under way, saves every position, gives the shards to other processes, and
// closes the store. That takes Config.StopWithin at most, about. Whatever was acknowledged is
// delivered after the next start.
//
// While Redis is away at the start, Run waits for it. A store that goes away later is not an
// error: requests get 503 with Retry-After meanwhile. Run returns nil after the end of ctx, ErrRan if it was called
// before, ErrClosed after Close, and otherwise why a part failed: the store refuses what it holds,
// or Config.Listen or Config.Serve returned an error.
func (h *Hub) Run(ctx context.Context) error { return h.house.Run(ctx) }

// Close closes a Hub that does not run, and returns the error of closing its store. Once Run was called it does nothing: the end of
// Run's context ends the hub.
func (h *Hub) Close() error { return h.house.Close() }

// Ready returns a channel that is closed when Run has reached the store and takes requests.
// Deliveries begin as their subscriptions are loaded; /readyz of Operator says when all are.
func (h *Hub) Ready() <-chan struct{} { return h.house.Ready() }

// Retire announces the end: from now on /readyz of Operator answers 503, so that a load balancer sends no
// more requests, and the operators' streams end. Requests are served until the context of Run ends, which
// announces it, too. Further calls do nothing.
func (h *Hub) Retire() { h.house.Retire() }

// Loading says how far the subscriptions are loaded that this process delivers to.
type Loading struct {
	Subscriptions int  // that are loaded
	Shards, Of    int  // the shards whose subscriptions are loaded, of those that are this process's part
	Done          bool // all of them were loaded once
}

// Loading returns how far loading has come.
func (h *Hub) Loading() Loading {
	subscriptions, held, fair, done := h.house.Loading()
	return Loading{Subscriptions: subscriptions, Shards: held, Of: fair, Done: done}
}

// Check returns everything that would keep Open from working, as far as it shows without opening
// anything, each by the name of its field, and logs what Open would warn of.
func (c Config) Check() error { return house.Config(c).Check() }

// Format implements fmt.Formatter. It shows URL and Store without passwords.
func (c Config) Format(s fmt.State, verb rune) { house.Config(c).Format(s, verb) }

// FinishWithin returns how long the program's server may take, when Run's context has ended, to finish
// requests under way: a part of StopWithin, 10 s at most.
func (c Config) FinishWithin() time.Duration { return house.Config(c).FinishWithin() }

// Connections returns how many connections the listeners of Handler and of Operator should have open
// at a time, at most, so that the files that the process may open (ulimit -n) last for deliveries and the
// store, too.
func Connections() (public, operator int) {
	public, operator, _ = house.Connections()
	return public, operator
}
