package mirror

import (
	"time"

	"carillon/internal/fetch"
	"carillon/internal/legible"
)

const (
	// failuresInARow is after how many a host is left alone for a time.
	failuresInARow = 5
	// maxPause is how long it is left alone at most, whatever it asks for.
	maxPause = time.Minute
	// patience is how long a pause may last that a fetch waits for; longer ones fail it at once.
	patience = 10 * time.Second
)

func newHosts(cfg *Config) *fetch.Hosts {
	return &fetch.Hosts{
		PerHost: cfg.PerHost, Failures: failuresInARow, MaxPause: maxPause, Patience: patience,
		OnPause: func(name string, pause time.Duration, failures int, last error) {
			cfg.Logger.Warn(
				"a host is left alone for a time", "host", legible.Cut(name), "pause", pause,
				"failures", failures, "reason", legible.Cut(last.Error()),
			)
		},
	}
}
