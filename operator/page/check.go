package page

import (
	"context"
	"net/http"
	"strings"

	"carillon/operator"
)

// checked is the page of a check.
type checked struct {
	URL string // as entered: the first
	// Live is the address of the stream of findings; "" while there is nothing to check.
	Live string
}

// check shows the page that lists the faults of what a Source serves.
func (p *hubPages) check(w http.ResponseWriter, r *http.Request) error {
	var v checked
	s := sheet{Title: "Check", Here: "check"}
	places, err := startsOf(r)
	switch {
	case err != nil:
		s.Error = p.errorPageFor(r, err)
	case len(places) > 0:
		v = checked{URL: places[0], Live: checkLivePath(places...)}
	}
	s.Body = v
	p.show(w, r, "check", s)
	return nil
}

// checkLive checks the URLs that the query names, and sends each finding as it is made.
func (p *hubPages) checkLive(w http.ResponseWriter, r *http.Request) error {
	places, err := startsOf(r)
	if err != nil {
		return err
	}
	return p.feed(w, r, func(ctx context.Context, send func([]byte) bool) {
		for found, err := range p.desk.Check(ctx, places) {
			if !send(p.checkedPart(r, found, err)) {
				return
			}
		}
	})
}

// startsOf returns the URLs that the query names. It ignores empty fields of the form.
func startsOf(r *http.Request) (places []string, err error) {
	for _, text := range r.URL.Query()["url"] {
		text = strings.TrimSpace(text)
		switch {
		case text == "":
			continue
		case web(text) == "":
			return nil, invalid("%.80q cannot be checked: it must be a whole URL of http or https", text)
		case len(places) == maxPlaces:
			return nil, invalid("at most %d URLs are checked at a time", maxPlaces)
		}
		places = append(places, text)
	}
	return places, nil
}

// maxPlaces is how many prefixes a Source may have.
const maxPlaces = 100

// checkedPart is an entry of the list of findings.
func (p *hubPages) checkedPart(r *http.Request, found operator.Checked, err error) []byte {
	v := struct {
		operator.Checked
		Wrong *errorPage
	}{found, p.errorPageFor(r, err)}
	return p.part("check", "checked", v)
}
