package hub

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gorilla/mux"
)

// selfPath is where the hub answers itself, below the hub URI.
const selfPath = "self/"

// SelfAddress returns an address below the hub URI which only this Hub answers with 204: who gets that
// has reached this one and no other. It is a secret of the process.
func (h *Hub) SelfAddress() string {
	return strings.TrimSuffix(h.cfg.URL, "/") + "/" + selfPath + h.nonce
}

func (h *Hub) getSelf(w http.ResponseWriter, r *http.Request) (string, error) {
	if subtle.ConstantTimeCompare([]byte(mux.Vars(r)["nonce"]), []byte(h.nonce)) != 1 {
		return h.notFound(w, r)
	}
	w.WriteHeader(http.StatusNoContent)
	return kindOther, nil
}
