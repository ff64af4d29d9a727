package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"carillon/operator"
)

// doneTexts are what a page says after a change. A link can choose one of them, and say
// nothing else.
var doneTexts = map[string]string{
	"retry":  "The next attempt is being made now. Load this page again to see how it went.",
	"replay": "The replay has begun. What is new is delivered after it.",
	"remove": "The subscription was removed, and its callback gets the denial.",
	"trim":   "The log was trimmed.",
	"revoke": "The Source was revoked: its token no longer works.",
	"level":  "The log level was changed. It stays until this process ends or its configuration is read again.",
}

func doneText(r *http.Request) string {
	q := r.URL.Query()
	if q.Get("done") == "trim" {
		return trimmed(q)
	}
	return doneTexts[q.Get("done")]
}

// trimmed reports what a trim removed, from the address that it led to.
func trimmed(q url.Values) string {
	n, err := strconv.Atoi(q.Get("n"))
	bytes, err2 := strconv.ParseInt(q.Get("bytes"), 10, 64)
	if err != nil || err2 != nil || n < 0 || bytes < 0 {
		return doneTexts["trim"]
	}
	return trimmedText(operator.TrimResult{Notifications: n, Bytes: bytes}) + "."
}

func trimmedText(r operator.TrimResult) string {
	return fmt.Sprintf(
		"The log was trimmed: %s went, %s", plural(r.Notifications, "notification", "notifications"), size(r.Bytes),
	)
}

// done is a path with a note of what was done, for doneText.
func done(to, what string) string {
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	return fmt.Sprintf("%s%sdone=%s", to, separator, what)
}

// see sends the browser to another page, after a change: it may be loaded again.
func see(w http.ResponseWriter, r *http.Request, to string) error {
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}
