package hub

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"carillon/subscription"
)

// maxSecret is the longest hub.secret, bytes: it must be less than 200 (WebSub §5.1).
const maxSecret = 199

// maxVerifyToken is the longest hub.verify_token, bytes. PuSH 0.3 gives no bound; the hub
// stores it, and sends it back in an address.
const maxVerifyToken = 512

// formNames are the parameters that the hub understands. Every other is
// ignored, whatever it holds (WebSub §5.1).
var formNames = []string{
	"hub.mode", "hub.topic", "hub.callback", "hub.secret", "hub.lease_seconds", "hub.url", "hub.verify_token",
}

// form answers the requests that are forms.
func (h *Hub) form(w http.ResponseWriter, r *http.Request, charset string) (string, error) {
	if charset != "" && !strings.EqualFold(charset, "utf-8") {
		return kindOther, refuse(http.StatusUnsupportedMediaType, "The form must be in UTF-8 (WebSub 5.1).")
	}
	body, release, err := h.readBody(w, r, h.cfg.MaxForm)
	defer release()
	if err != nil {
		return kindOther, err
	}
	values, err := parseForm(string(body))
	if err != nil {
		return kindOther, err
	}
	mode, err := single(values, "hub.mode")
	if err != nil {
		return kindOther, err
	}
	switch mode {
	case "subscribe":
		return kindSubscribe, h.submit(w, r, values, subscription.ModeSubscribe)
	case "unsubscribe":
		return kindUnsubscribe, h.submit(w, r, values, subscription.ModeUnsubscribe)
	case "publish":
		return kindPing, h.ping(w, r, values)
	case "":
		return kindOther, badRequest("hub.mode is missing: it is subscribe, unsubscribe or publish.")
	}
	return kindOther, badRequest("hub.mode must be subscribe, unsubscribe or publish.")
}

// submit answers a subscribe or unsubscribe request: 202 when it is durable. The results of the topic
// and the callback come after the answer (WebSub §5.1.2).
func (h *Hub) submit(w http.ResponseWriter, r *http.Request, values url.Values, mode subscription.Mode) error {
	wish, err := parseWish(values, mode)
	if err != nil {
		return err
	}
	if err := h.checkAddress("hub.callback", wish.Callback); err != nil {
		return err
	}
	if err := h.checkAddress("hub.topic", wish.Topic); err != nil {
		return err
	}
	if h.cfg.ownCallback(wish.Callback) {
		return refuse(http.StatusForbidden, "hub.callback is at a host whose callbacks are this hub's own.")
	}
	if wish.Client, err = h.clients.admit(r, 1); err != nil {
		return err
	}
	ctx, cancel := h.storing(r)
	defer cancel()
	if err := h.parts.Requests.Submit(ctx, wish); err != nil {
		return err
	}
	if mode == subscription.ModeSubscribe && h.parts.Memory != nil {
		w.Header().Set("Link", h.memoryLink(wish.Topic))
	}
	writeText(w, http.StatusAccepted, "Accepted. The hub will now ask the callback to confirm.")
	return nil
}

// ownCallback reports whether a callback is at the host of the hub's own, however that is spelled.
func (c Config) ownCallback(callback string) bool {
	u, err := url.Parse(callback)
	own, failed := url.Parse(c.OwnCallbacks)
	return c.OwnCallbacks != "" && err == nil && failed == nil &&
		strings.EqualFold(strings.TrimRight(u.Hostname(), "."), own.Hostname())
}

// parseWish reads the parameters of a subscribe or unsubscribe request. Topic and
// callback stay byte for byte as they were given (WebSub §5.3, §8.3).
func parseWish(values url.Values, mode subscription.Mode) (subscription.Wish, error) {
	wish := subscription.Wish{Mode: mode}
	var err error
	if wish.Callback, err = required(values, "hub.callback"); err != nil {
		return wish, err
	}
	if wish.Topic, err = required(values, "hub.topic"); err != nil {
		return wish, err
	}
	secret, err := single(values, "hub.secret")
	if err != nil {
		return wish, err
	}
	if len(secret) > maxSecret {
		return wish, badRequest("hub.secret must be less than 200 bytes long (WebSub 5.1).")
	}
	wish.Secret = subscription.Secret(secret)
	token, err := single(values, "hub.verify_token")
	if err != nil {
		return wish, err
	}
	if len(token) > maxVerifyToken {
		return wish, badRequest("hub.verify_token must be at most %d bytes long.", maxVerifyToken)
	}
	wish.VerifyToken = subscription.Secret(token)
	if mode == subscription.ModeSubscribe {
		wish.Lease, wish.LeaseGiven, err = parseLease(values)
	}
	return wish, err
}

// parseLease reads hub.lease_seconds, a positive decimal integer (WebSub §5.1). A
// number beyond what a Duration holds counts as the longest there is; an empty
// value counts as none given.
func parseLease(values url.Values) (lease time.Duration, given bool, err error) {
	raw, err := single(values, "hub.lease_seconds")
	if err != nil || raw == "" {
		return 0, false, err
	}
	const most = int64(math.MaxInt64 / time.Second)
	seconds := int64(0)
	for _, c := range []byte(raw) {
		if c < '0' || c > '9' {
			return 0, false, badRequest(
				"hub.lease_seconds must be a positive whole number of seconds in decimal digits.",
			)
		}
		seconds = min(most, seconds*10+int64(c-'0'))
	}
	if seconds == 0 {
		return 0, false, badRequest("hub.lease_seconds must be greater than 0.")
	}
	return time.Duration(seconds) * time.Second, true, nil
}

// parseForm reads the parameters that the hub understands. Only & separates
// them (URL Standard §5.1), so that a semicolon is part of a value.
func parseForm(body string) (url.Values, error) {
	values := url.Values{}
	for pair := range strings.SplitSeq(body, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || !slices.Contains(formNames, name) {
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		// A character outside ASCII takes three bytes on the hub's way to a callback, and counts as three
		// here.
		if err == nil && utf8.ValidString(value) && !strings.ContainsFunc(rawValue, notASCII) {
			values[name] = append(values[name], value)
			continue
		}
		if name != "hub.lease_seconds" {
			return nil, badRequest("%s is not form-encoded UTF-8.", name)
		}
		// It must be ignored on unsubscribe, whatever it holds; on subscribe
		// this value is refused (WebSub §5.1).
		values[name] = append(values[name], "?")
	}
	return values, nil
}

func notASCII(r rune) bool { return r >= utf8.RuneSelf }

// single returns the value of a parameter, empty if it is not given. Given twice with one value it
// counts once; two values are an error, as either may be meant.
func single(values url.Values, name string) (string, error) {
	all := values[name]
	if len(all) == 0 {
		return "", nil
	}
	for _, v := range all[1:] {
		if v != all[0] {
			return "", badRequest("%s is given more than once, with different values.", name)
		}
	}
	return all[0], nil
}

func required(values url.Values, name string) (string, error) {
	value, err := single(values, name)
	if err == nil && value == "" {
		err = badRequest("%s is missing.", name)
	}
	return value, err
}
