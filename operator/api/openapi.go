package api

import (
	_ "embed"
	"net/http"
)

// openAPI is the API for programs. A test holds it to routes, to the types of package operator
// and to real answers.
//
//go:embed openapi.yaml
var openAPI []byte

func (a *api) openAPI(w http.ResponseWriter, _ *request) error {
	writeText(w, http.StatusOK, "application/yaml", openAPI)
	return nil
}
