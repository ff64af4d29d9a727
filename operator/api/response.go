package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
)

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// reading lets GET and HEAD through.
func reading(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "This path takes GET and HEAD.")
			return
		}
		h.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusNotFound, "There are /healthz, /readyz, /metrics and /api/v1/ here.")
}

// writeText answers with a whole body that no cache may keep.
func writeText(w http.ResponseWriter, status int, contentType string, text []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}

// writeJSON answers, unless there is an error.
func writeJSON(w http.ResponseWriter, status int, answer any, err error) error {
	if err != nil {
		return err
	}
	text, err := jsonText(answer)
	if err != nil {
		return err
	}
	writeText(w, status, "application/json", text)
	return nil
}

// jsonText is an answer as a line of JSON. An empty list is [] and never null.
func jsonText(answer any) ([]byte, error) {
	v := reflect.New(reflect.TypeOf(answer)).Elem()
	v.Set(reflect.ValueOf(answer))
	fill(v)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v.Interface())
	return text.Bytes(), err
}

// fill replaces nil lists and maps by empty ones, in v and all that is in it.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct {
			for i := range v.Len() {
				fill(v.Index(i))
			}
		}
	}
}

// writeEmpty answers that an order is carried out, unless there is an error.
func writeEmpty(w http.ResponseWriter, err error) error {
	if err == nil {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}
