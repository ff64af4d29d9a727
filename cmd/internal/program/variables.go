package program

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
)

// notOurs are variables that others make and that begin with the name of a program:
// Kubernetes those of a service of that name, images that of a version.
var notOurs = regexp.MustCompile(`_(SERVICE_(HOST|PORT(_.*)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_.*)?)?|VERSION)$`)

// WarnOfVariables logs a warning for each environment variable that has the prefix of the program
// but belongs to no flag: a misspelt variable has no effect. Flags are as for Parse; also lists
// variables that are read elsewhere. Values are not logged.
func WarnOfVariables(logger *slog.Logger, name string, flags any, also ...string) {
	parser, err := newParser(name, flags)
	if err != nil {
		return // Parse has reported it
	}
	for _, variables := range known(parser.Model.Node) {
		also = append(also, variables...)
	}
	var unknown []string
	for _, entry := range os.Environ() {
		variable, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(variable, envPrefix(name)+"_") && !slices.Contains(also, variable) && !notOurs.MatchString(variable) {
			unknown = append(unknown, variable)
		}
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		args := []any{"variables", strings.Join(unknown, ", ")}
		if like := nearest(unknown[0], also); len(unknown) == 1 && like != "" {
			args = append(args, "did_you_mean", like)
		}
		logger.Warn(
			"the environment has variables that are no settings of "+name+": they do nothing. --help has the names of those that there are",
			args...,
		)
	}
}
