package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
)

// sourcePages show the registered Sources, and change them.
type sourcePages struct {
	*renderer
	desk api.SourceService
}

// sourceList is the registered Sources, with the form that adds one.
type sourceList struct {
	Open           bool // everybody may publish
	Sources        []operator.Source
	Name, Prefixes string // as entered
	Made           *operator.NewSource
	How            string // what happened to the one that was made
	Live           string // the stream of the check of a Source that was added; "" for none
}

// sources lists them, and adds one that is posted. The answer to that is no redirect: its
// token is shown this once.
func (p *sourcePages) sources(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(r); err != nil {
		return err
	}
	v := sourceList{Name: strings.TrimSpace(r.PostForm.Get("name")), Prefixes: r.PostForm.Get("prefixes")}
	if r.Method != http.MethodPost {
		p.showSources(w, r, v, nil)
		return nil
	}
	ctx, cancel := ask(r)
	defer cancel()
	made, err := p.desk.AddSource(ctx, v.Name, strings.Fields(v.Prefixes), source.Hash{})
	if err == nil {
		v = sourceList{Made: &made, How: "was added", Live: checkLivePath(made.Prefixes...)}
	}
	p.showSources(w, r, v, err)
	return nil
}

// showSources shows the list, also where something else went wrong before.
func (p *sourcePages) showSources(w http.ResponseWriter, r *http.Request, v sourceList, wrong error) {
	ctx, cancel := ask(r)
	defer cancel()
	all, err := p.desk.Sources(ctx)
	v.Sources, v.Open = all, p.cfg.Open
	s := sheet{Title: "Sources", Here: "sources"}
	if wrong == nil {
		wrong = err
	}
	// A new token is shown, beside any error.
	if wrong != nil && v.Made == nil {
		s.Error = p.errorPageFor(r, wrong)
	}
	s.Body = v
	p.show(w, r, "sources", s)
}

// of hands a handler the Source that the path names.
func (p *sourcePages) of(h func(w http.ResponseWriter, r *http.Request, s operator.Source) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := ask(r)
		defer cancel()
		name := mux.Vars(r)["name"]
		all, err := p.desk.Sources(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(s operator.Source) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: there is no Source %.80q", operator.ErrNotFound, name)
		}
		return h(w, r, all[i])
	}
}

// rotate gives a Source another token.
func (p *sourcePages) rotate(w http.ResponseWriter, r *http.Request, s operator.Source) error {
	var made operator.NewSource
	return p.change(w, r, "Another token for a Source", "sources", confirm{
		About: s.Name, Button: "Make another token", Danger: true, Back: "/sources",
		Says: []string{
			fmt.Sprintf(
				"Its token of %s stops working at once, and publishing with it is refused. The new one is shown once.",
				utc(s.Issued),
			),
		},
	}, func(ctx context.Context) (err error) {
		made, err = p.desk.RotateSource(ctx, s.Name, source.Hash{})
		return err
	}, func() error {
		p.showSources(w, r, sourceList{Made: &made, How: "has another token"}, nil)
		return nil
	})
}

// revoke ends a Source.
func (p *sourcePages) revoke(w http.ResponseWriter, r *http.Request, s operator.Source) error {
	return p.change(w, r, "Revoke a Source", "sources", confirm{
		About: s.Name, Button: "Revoke it", Danger: true, Back: "/sources",
		Says: []string{
			"Its token stops working at once, and it can publish nothing more. Its topics, what they published and their subscribers stay.",
		},
	}, func(ctx context.Context) error {
		return p.desk.RevokeSource(ctx, s.Name)
	}, func() error { return see(w, r, done("/sources", "revoke")) })
}
