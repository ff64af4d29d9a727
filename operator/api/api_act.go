package api

import (
	"fmt"
	"net/http"
	"unicode/utf8"

	"carillon/delivery"
	"carillon/operator"
	"carillon/source"
)

// ReplayRequest is what is to be delivered once more.
type ReplayRequest struct {
	From delivery.Seq `json:"from_seq"`
	Last delivery.Seq `json:"last_seq,omitempty"` // 0: up to the head
}

// TrimRequest is what is to go from a log.
type TrimRequest struct {
	Topic  string       `json:"topic"`
	Before delivery.Seq `json:"before_seq"`
}

// SourceRequest is a Source to be registered.
type SourceRequest struct {
	Name     string   `json:"name"`
	Prefixes []string `json:"topic_prefixes"`
	// Hash is the SHA-256 of a token that who asks has made; without it the hub makes a token.
	Hash source.Hash `json:"token_sha256,omitzero"`
}

// TokenRequest is another token for a Source.
type TokenRequest struct {
	Hash source.Hash `json:"token_sha256,omitzero"` // as SourceWish has it
}

func (a *api) retry(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	desk, err := a.service(r)
	if err != nil {
		return err
	}
	return writeEmpty(w, desk.Retry(r.Context(), id))
}

func (a *api) replay(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	var wish ReplayRequest
	if err := readBody(r, &wish, false); err != nil {
		return err
	}
	switch {
	case wish.From == 0 || wish.From > maxSeq:
		return wrong("from_seq", "must be the number of a notification: 1 or more.")
	case wish.Last > maxSeq || wish.Last != 0 && wish.Last < wish.From:
		return wrong("last_seq", "must not be less than from_seq; 0, or without it: up to the newest.")
	}
	return respond(a, w, r, func(desk Service) (operator.Replay, error) {
		return desk.Replay(r.Context(), id, wish.From, wish.Last)
	})
}

func (a *api) remove(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	reason := r.text("reason")
	if len(reason) > operator.MaxReason || !printable(reason) {
		return wrong("reason", fmt.Sprintf("must be one line of text, of at most %d bytes.", operator.MaxReason))
	}
	desk, err := a.service(r)
	if err != nil {
		return err
	}
	return writeEmpty(w, desk.Remove(r.Context(), id, reason))
}

// printable reports whether a text has no control characters.
func printable(text string) bool {
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

func (a *api) trim(w http.ResponseWriter, r *request) error {
	var wish TrimRequest
	if err := readBody(r, &wish, false); err != nil {
		return err
	}
	if text := checkTopic(wish.Topic); text != "" {
		return wrong("topic", text)
	}
	if wish.Before == 0 || wish.Before > maxSeq {
		return wrong("before_seq", "must be the number of the first notification that stays: 1 or more.")
	}
	return respond(a, w, r, func(desk Service) (operator.TrimResult, error) {
		return desk.Trim(r.Context(), wish.Topic, wish.Before)
	})
}

func (a *api) addSource(w http.ResponseWriter, r *request) error {
	var wish SourceRequest
	if err := readBody(r, &wish, false); err != nil {
		return err
	}
	if err := source.CheckName(wish.Name); err != nil {
		return wrong("name", "is no name of a Source: "+err.Error()+".")
	}
	desk, err := a.service(r)
	if err != nil {
		return err
	}
	answer, err := desk.AddSource(r.Context(), wish.Name, wish.Prefixes, wish.Hash)
	return writeJSON(w, http.StatusCreated, answer, err)
}

func (a *api) rotateSource(w http.ResponseWriter, r *request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	var wish TokenRequest
	if err := readBody(r, &wish, true); err != nil {
		return err
	}
	return respond(a, w, r, func(desk Service) (operator.NewSource, error) {
		return desk.RotateSource(r.Context(), name, wish.Hash)
	})
}

func (a *api) revokeSource(w http.ResponseWriter, r *request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	desk, err := a.service(r)
	if err != nil {
		return err
	}
	return writeEmpty(w, desk.RevokeSource(r.Context(), name))
}

func (a *api) setLogLevel(w http.ResponseWriter, r *request) error {
	if a.Level == nil {
		return errNoLevel
	}
	var wish LevelResponse
	if err := readBody(r, &wish, false); err != nil {
		return err
	}
	before := a.Level.Get()
	if err := a.Level.Set(wish.Level); err != nil {
		return wrong("level", "must be debug, info, warn or error.")
	}
	a.Logger.Warn("the level of the log was changed", "from", before, "to", a.Level.Get())
	return writeJSON(w, http.StatusOK, LevelResponse{a.Level.Get()}, nil)
}
