package api

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"
)

const (
	profilesPath = "/debug/pprof/"
	// maxProfile bounds what a profile over time may take: the hub is slower meanwhile, and the
	// listener reads a request for a minute at most.
	maxProfile = 50 * time.Second
)

// profiles adds what go tool pprof asks for (Config.Profiles). The command line, which it
// shows otherwise, is left out: a password may stand in it.
func profiles(r *mux.Router) {
	for name, handler := range map[string]http.HandlerFunc{
		"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace, "symbol": pprof.Symbol, "cmdline": notFound,
	} {
		r.Path(profilesPath + name).Handler(reading(inTime(handler)))
	}
	r.PathPrefix(profilesPath).Handler(reading(inTime(pprof.Index)))
}

// inTime refuses a profile that would take too long.
func inTime(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw := strings.TrimSpace(r.URL.Query().Get("seconds"))
		seconds, err := strconv.ParseFloat(raw, 64)
		if raw != "" && (err != nil || !(seconds > 0 && seconds <= maxProfile.Seconds())) {
			plain(
				w, http.StatusBadRequest,
				fmt.Sprintf("seconds must be more than 0 and at most %.0f.", maxProfile.Seconds()),
			)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		h(w, r)
	})
}
