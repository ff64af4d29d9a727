package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"carillon/source"
)

// What the control paths of Sources take and give. A token is made by the command and
// stays with it: what is sent here is its hash.

type sourceWish struct {
	Name     string      `json:"name"`
	Prefixes []string    `json:"topic_prefixes,omitempty"`
	Hash     source.Hash `json:"token_sha256,omitzero"`
}

type sourceAnswer struct {
	Name     string    `json:"name"`
	Prefixes []string  `json:"topic_prefixes"`
	Created  time.Time `json:"created"`
	Issued   time.Time `json:"token_issued"`
}

// sourcePaths are those of hub source.
func (c *controls) sourcePaths(mux *http.ServeMux) {
	mux.Handle("GET /v1/sources", c.handle(c.listSources))
	mux.Handle("POST /v1/sources/add", c.handle(c.changeSources(func(ctx context.Context, w sourceWish) error {
		now := time.Now()
		return source.Register(ctx, c.store.Sources, source.Source{
			Name: w.Name, Prefixes: w.Prefixes, TokenHash: w.Hash, Created: now, Issued: now,
		})
	})))
	mux.Handle("POST /v1/sources/rotate", c.handle(c.changeSources(func(ctx context.Context, w sourceWish) error {
		return source.Rotate(ctx, c.store.Sources, w.Name, w.Hash, time.Now())
	})))
	mux.Handle("POST /v1/sources/revoke", c.handle(c.changeSources(func(ctx context.Context, w sourceWish) error {
		return c.store.Sources.Delete(ctx, w.Name)
	})))
}

func (c *controls) listSources(w http.ResponseWriter, r *http.Request) error {
	all, err := c.store.Sources.List(r.Context())
	if err != nil {
		return err
	}
	answer := []sourceAnswer{}
	for _, s := range all {
		answer = append(answer, sourceAnswer{s.Name, s.Prefixes, s.Created, s.Issued})
	}
	return writeJSON(w, answer)
}

// changeSources makes a change in the store and then in what this process knows, so that
// it counts when the command hears of it.
func (c *controls) changeSources(change func(ctx context.Context, w sourceWish) error) controlFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		var wish sourceWish
		if err := readJSON(r, &wish); err != nil {
			return err
		}
		if err := source.CheckName(wish.Name); err != nil {
			return refusal{http.StatusBadRequest, err.Error()}
		}
		if err := change(r.Context(), wish); err != nil {
			return sourceRefusal(wish.Name, err)
		}
		if c.sources != nil {
			if err := c.sources.Refresh(context.WithoutCancel(r.Context())); err != nil {
				return fmt.Errorf("it was stored, but the hub does not know of it yet: %w", err)
			}
		}
		c.logger.Info("the Sources were changed", "source", wish.Name, "path", r.URL.Path)
		return writeJSON(w, struct{}{})
	}
}

// sourceRefusal says what to do about a change that was refused.
func sourceRefusal(name string, err error) error {
	switch {
	case errors.Is(err, source.ErrExists):
		return refusal{http.StatusConflict, fmt.Sprintf("there is a Source %q already: hub source rotate gives it another token; to give it other prefixes, revoke it first", name)}
	case errors.Is(err, source.ErrNotFound):
		return refusal{http.StatusNotFound, fmt.Sprintf("there is no Source %q: hub source list names them", name)}
	case errors.Is(err, source.ErrTooMany):
		return refusal{http.StatusConflict, err.Error()}
	}
	return err
}
