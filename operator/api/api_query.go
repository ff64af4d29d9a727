package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"carillon/delivery"
	"carillon/operator"
	"carillon/source"
)

// maxText bounds a parameter that is text or a URL, bytes. No topic is longer.
const maxText = 2048

// query reads the parameters of a request, strictly: an unknown or unreadable one is an error and
// never passed over. The first error stands.
type query struct {
	values url.Values
	err    error
}

// readQuery takes a query with these parameters, each once at most.
func readQuery(raw string, known []string) (*query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, Refusal(http.StatusBadRequest, "The query is not well-formed.")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, wrong(shortened(name), "is not known: this path takes no parameters.")
		case !slices.Contains(known, name):
			return nil, wrong(shortened(name), "is not known: this path takes "+strings.Join(known, ", ")+".")
		case len(all) > 1:
			return nil, wrong(name, "is given more than once.")
		}
	}
	return &query{values: values}, nil
}

// shortened is a name that a client made up.
func shortened(name string) string { return fmt.Sprintf("%.40q", name) }

func (q *query) fail(name, detail string) {
	if q.err == nil {
		q.err = wrong(name, detail)
	}
}

// text is the parameter, "" where it is not there.
func (q *query) text(name string) string {
	text := q.values.Get(name)
	if len(text) > maxText {
		q.fail(name, fmt.Sprintf("is longer than %d bytes.", maxText))
	}
	return text
}

// topic is the URL of a topic.
func (q *query) topic(required bool) string {
	if q.values.Get("topic") == "" && !required {
		return ""
	}
	return q.url("topic", "it is the URL of the topic")
}

// url is a URL that must be there; what names its kind.
func (q *query) url(name, what string) string {
	text := q.values.Get(name)
	if wrong := checkURL(text, what); wrong != "" {
		q.fail(name, wrong)
	}
	return text
}

// checkTopic reports the faults of the URL of a topic; "": nothing.
func checkTopic(text string) string { return checkURL(text, "it is the URL of the topic") }

// checkURL reports what is wrong with a URL, to go on from its name; "" if nothing is.
func checkURL(text, what string) string {
	switch u, err := url.Parse(text); {
	case text == "":
		return "is missing: " + what + "."
	case len(text) > maxText:
		return fmt.Sprintf("is longer than %d bytes.", maxText)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is no absolute URL with http or https."
	}
	return ""
}

// limit is how many; 0: the default.
func (q *query) limit() int {
	n := q.number("limit", operator.MaxLimit)
	if q.values.Has("limit") && n == 0 {
		q.fail("limit", fmt.Sprintf("must be from 1 to %d.", operator.MaxLimit))
	}
	return int(n)
}

// number is a whole number from 0 to most; 0 where it is not there.
func (q *query) number(name string, most uint64) uint64 {
	if !q.values.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 64)
	if err != nil || n > most {
		q.fail(name, fmt.Sprintf("must be a whole number, at most %d.", most))
	}
	return n
}

// maxSeq is the largest sequence number: the largest int64, which no log comes near.
const maxSeq = 1<<63 - 1

func (q *query) seq(name string) delivery.Seq { return delivery.Seq(q.number(name, maxSeq)) }

// boolean is true or false; false where it is not there.
func (q *query) boolean(name string) bool {
	switch text := q.values.Get(name); {
	case text == "true":
		return true
	case text != "false" && q.values.Has(name):
		q.fail(name, "must be true or false.")
	}
	return false
}

// duration is a time like 90s, 15m or 24h, or a number of seconds; 0 where it is not there.
func (q *query) duration(name string) time.Duration {
	if !q.values.Has(name) {
		return 0
	}
	text := q.values.Get(name)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		text = strconv.FormatUint(seconds, 10) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		q.fail(name, "must be a time of more than 0, as 90s, 15m and 24h are.")
	}
	return d
}

// oneOf is one of the values, "" where it is not there.
func (q *query) oneOf(name string, values ...string) string {
	text := q.values.Get(name)
	if q.values.Has(name) && !slices.Contains(values, text) {
		q.fail(name, "must be one of "+strings.Join(values, ", ")+".")
	}
	return text
}

// id is an ID in the query; the zero ID where it is not there.
func (q *query) id(name string) (id uuid.UUID) {
	if !q.values.Has(name) {
		return id
	}
	id, ok := parseID(q.values.Get(name))
	if !ok {
		q.fail(name, noID)
	}
	return id
}

// noID says what an ID is.
const noID = "must be an ID of 36 characters, as 6ba7b810-9dad-51d1-80b4-00c04fd430c8 is."

// parseID takes the one form that IDs are written in.
func parseID(text string) (id uuid.UUID, ok bool) {
	if len(text) != len(id.String()) {
		return id, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

// pathID is the ID in the path.
func pathID(r *request) (uuid.UUID, error) {
	id, ok := parseID(mux.Vars(r.Request)["id"])
	if !ok {
		return id, wrong("id", noID)
	}
	return id, nil
}

// pathName is the name of a Source in the path.
func pathName(r *request) (string, error) {
	name := mux.Vars(r.Request)["name"]
	if err := source.CheckName(name); err != nil {
		p := Refusal(http.StatusBadRequest, sentence(err.Error()))
		p.Parameter = "name"
		return "", p
	}
	return name, nil
}

// readBody reads the JSON object of a request. Where it may be missing, nothing is read
// then.
func readBody(r *request, into any, optional bool) error {
	if optional && (r.Body == nil || r.ContentLength == 0) {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Refusal(http.StatusUnsupportedMediaType, "The body must be application/json.")
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return bodyProblem(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Refusal(http.StatusBadRequest, "The body must be one JSON object, with nothing after it.")
	}
	return nil
}

// bodyProblem reports the faults of a body.
func bodyProblem(err error) error {
	if large, is := errors.AsType[*http.MaxBytesError](err); is {
		return Refusal(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than %d bytes.", large.Limit))
	}
	if kind, is := errors.AsType[*json.UnmarshalTypeError](err); is && kind.Field != "" {
		return wrong(kind.Field, "has a value of the wrong kind.")
	}
	if name, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
		return wrong(strings.Trim(name, `"`), "is not known in this body.")
	}
	return Refusal(
		http.StatusBadRequest,
		"The body is not the JSON object that is expected: "+strings.TrimPrefix(err.Error(), "json: ")+".",
	)
}

// request is a request with its query, as far as the operation knows that.
type request struct {
	*http.Request
	*query
}
