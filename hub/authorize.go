package hub

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	registered "carillon/source"
	"carillon/topic"
)

// The contents of a challenge (RFC 6750 §3, §3.1).
const (
	challenge         = `Bearer realm="carillon"`
	invalidRequest    = challenge + `, error="invalid_request"`
	invalidToken      = challenge + `, error="invalid_token"`
	insufficientScope = challenge + `, error="insufficient_scope"`
)

// reason is why a publication was refused: the label of a metric.
type reason string

const (
	reasonNoToken   reason = "no_token"  // none was sent
	reasonMalformed reason = "malformed" // more than one Authorization header, or no token in it
	reasonUnknown   reason = "unknown"   // wrong, or revoked
	reasonOutside   reason = "outside"   // the topic is not one of the Source's
)

// gatekeeper lets registered Sources publish, and logs refusals. One without sources lets every
// publisher in.
type gatekeeper struct {
	sources Sources
	client  func(*http.Request) string // the client of a request; empty: on this machine
	logger  *slog.Logger
	refused *prometheus.CounterVec
	// The log lines of each reason are bounded: strangers can be refused as fast as they can send.
	told map[reason]*outage
}

func newGatekeeper(
	sources Sources, client func(*http.Request) string, logger *slog.Logger, reg prometheus.Registerer,
) (*gatekeeper, error) {
	k := &gatekeeper{
		sources: sources, client: client, logger: logger,
		refused: counters(
			"publishers_refused_total",
			"Publications and pings refused as who sent them may not publish, or not to that topic.",
			"kind", "reason",
		),
		told: map[reason]*outage{reasonNoToken: {}, reasonMalformed: {}, reasonUnknown: {}, reasonOutside: {}},
	}
	for why := range k.told {
		k.refused.WithLabelValues(kindPublish, string(why))
		k.refused.WithLabelValues(kindPing, string(why))
		k.refused.WithLabelValues(kindAnswer, string(why))
	}
	return k, register(reg, k.refused)
}

// authenticate returns what the token of a request is good for; nil where everybody may
// publish, whatever was sent. On error the challenge is in the header of the answer.
func (k *gatekeeper) authenticate(w http.ResponseWriter, r *http.Request, kind string) (*registered.Grant, error) {
	if k.sources == nil {
		return nil, nil
	}
	token, err := registered.BearerToken(r.Header.Values("Authorization"))
	switch {
	case errors.Is(err, registered.ErrNoToken):
		k.tell(r, kind, reasonNoToken)
		return nil, challenged(w, http.StatusUnauthorized, challenge,
			"Only registered Sources may publish here. Send the token that the operator of this hub gave you: Authorization: Bearer TOKEN")
	case err != nil:
		k.tell(r, kind, reasonMalformed)
		return nil, challenged(w, http.StatusBadRequest, invalidRequest,
			"Authorization must be there once, as Bearer and one token (RFC 6750 2.1).")
	}
	grant, err := k.sources.Authenticate(r.Context(), token)
	if errors.Is(err, registered.ErrUnknownToken) {
		k.tell(r, kind, reasonUnknown)
		return nil, challenged(w, http.StatusUnauthorized, invalidToken,
			"No registered Source has this token: it is wrong, or was revoked. The operator of this hub can give you another.")
	}
	return grant, err
}

// covered refuses a publication whose topic, which the request names by the parameter, is
// not one of the Source's.
func (k *gatekeeper) covered(
	w http.ResponseWriter, r *http.Request, grant *registered.Grant, kind, name string, at topic.Address,
) error {
	if grant == nil || grant.Covers(at) {
		return nil
	}
	k.tell(r, kind, reasonOutside, "source", grant.Name(), "topic", at.String())
	return challenged(w, http.StatusForbidden, insufficientScope,
		name+" is a topic that your token is not for. The operator of this hub can register another prefix for you.")
}

// permit is authenticate and covered at once.
func (k *gatekeeper) permit(w http.ResponseWriter, r *http.Request, kind, name string, at topic.Address) error {
	grant, err := k.authenticate(w, r, kind)
	if err != nil {
		return err
	}
	return k.covered(w, r, grant, kind, name, at)
}

// challenged sets the challenge that goes with a refusal.
func challenged(w http.ResponseWriter, status int, challenge, message string) error {
	w.Header().Set("WWW-Authenticate", challenge)
	return refuse(status, "%s", message)
}

// tell counts a refusal and logs it with who sent it, once in a while. No token is in it.
func (k *gatekeeper) tell(r *http.Request, kind string, why reason, more ...any) {
	k.refused.WithLabelValues(kind, string(why)).Inc()
	if tell, untold := k.told[why].tell(time.Now()); tell {
		k.logger.Info(
			"a publisher was refused",
			append(
				[]any{
					"kind", kind, "reason", string(why), "client",
					cmp.Or(k.client(r), "this machine"), "untold", untold,
				},
				more...,
			)...,
		)
	}
}
