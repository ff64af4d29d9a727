package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"carillon/internal/durable"
)

// ErrData: the data directory cannot be used.
var ErrData = errors.New("data directory")

const (
	stateName = "destination.json"
	lockName  = "LOCK"
	// oldSuffix ends the name of a partial state file of an earlier version.
	oldSuffix = ".new"
	// maxSeen bounds the remembered IDs and digests, two for a notification. A hub that crashed
	// repeats only its latest deliveries, which are far fewer.
	maxSeen = 1000
	// stateVersion rises when an earlier program would misread the file.
	stateVersion = 1
)

// state is the content of the state file.
type state struct {
	// Version is the stateVersion of the writer; 0 in files without one.
	Version int `json:"version,omitempty"`
	// Topic is Config.Topic, to which the directory belongs.
	Topic        string        `json:"topic"`
	Subscription *subscription `json:"subscription,omitempty"`
	// LastUntil is the until of the latest notification, verbatim. The next one must begin there
	// (CN §3).
	LastUntil string `json:"last_until,omitempty"`
	// Seen holds the IDs and digests of the latest notifications, oldest first.
	Seen []string `json:"seen,omitempty"`
}

// subscription is the state of the subscription at the hub.
type subscription struct {
	Hub      string `json:"hub"`
	Topic    string `json:"topic"` // hub.topic, the rel=self
	Callback string `json:"callback"`
	// Secret is the latest one that the hub has verified. Next belongs to the unverified request,
	// during which the hub still signs by Secret (WebSub §5.1). Previous is the former Secret, for
	// deliveries that were in progress when it changed.
	Secret   string `json:"secret,omitempty"`
	Next     string `json:"next_secret,omitempty"`
	Previous string `json:"previous_secret,omitempty"`
	// ChangeMemory is the address of the hub's change memory for the topic; empty if it has none.
	ChangeMemory string `json:"memory,omitempty"`
	// Lease is the granted lease in seconds; LeaseEnd is its end. Both are zero until the hub has
	// verified the first request.
	Lease    int64     `json:"lease_seconds,omitempty"`
	LeaseEnd time.Time `json:"lease_end,omitzero"`
}

// active reports whether the hub has verified s and the lease has not ended.
func (s *subscription) active(now time.Time) bool { return s != nil && now.Before(s.LeaseEnd) }

// renewAt returns the time of the renewal, after two thirds of the lease. The rest is for retries.
func (s *subscription) renewAt() time.Time {
	return s.LeaseEnd.Add(-time.Duration(s.Lease) * time.Second / 3)
}

// secrets returns the secrets that may sign a delivery.
func (s *subscription) secrets() []string {
	return slices.DeleteFunc([]string{s.Secret, s.Next, s.Previous}, func(v string) bool { return v == "" })
}

// granted records that the hub has verified the pending request. It may be called again.
func (s *subscription) granted(lease time.Duration, now time.Time) {
	s.Lease, s.LeaseEnd = int64(lease/time.Second), now.Add(lease).UTC().Truncate(time.Second)
	if s.Next != "" {
		s.Secret, s.Next, s.Previous = s.Next, "", s.Secret
	}
}

func (s *state) seen(id string) bool { return id != "" && slices.Contains(s.Seen, id) }

func (s *state) see(id string) {
	s.Seen = append(s.Seen, id)
	if over := len(s.Seen) - maxSeen; over > 0 {
		s.Seen = slices.Delete(s.Seen, 0, over)
	}
}

// directory is the data directory, locked by this process.
type directory struct {
	path string
	lock *os.File
}

// openDirectory locks the directory and reads its state. A new directory has no subscription.
func openDirectory(path, topic string) (*directory, *state, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	lock, err := lockFile(filepath.Join(path, lockName))
	if err != nil {
		return nil, nil, fmt.Errorf("%w %s: %w", ErrData, path, err)
	}
	d := &directory{path: path, lock: lock}
	s, err := d.load(topic)
	if err == nil {
		err = d.sweep()
	}
	if err != nil {
		d.close()
		return nil, nil, fmt.Errorf("%w %s: %w", ErrData, path, err)
	}
	return d, s, nil
}

// sweep removes partial state files that a crash has left, as they hold secrets.
func (d *directory) sweep() error {
	for _, suffix := range []string{oldSuffix, durable.Suffix} {
		if err := os.Remove(filepath.Join(d.path, stateName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *directory) load(topic string) (*state, error) {
	text, err := os.ReadFile(filepath.Join(d.path, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return &state{Topic: topic}, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", stateName, err)
	}
	if s.Version > stateVersion {
		return nil, fmt.Errorf(
			"%s was written by a newer version of this program (format %d; this one reads up to %d)",
			stateName, s.Version, stateVersion,
		)
	}
	if s.Topic != topic {
		return nil, fmt.Errorf("it belongs to the topic %q; give each topic a directory of its own", s.Topic)
	}
	return s, nil
}

// save replaces the state. It is durable when save returns nil; after an error the old state
// remains.
func (d *directory) save(s *state) error {
	s.Version = stateVersion
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", stateName, err)
	}
	err = durable.WriteFile(filepath.Join(d.path, stateName), func(to io.Writer) error {
		_, err := to.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", stateName, err)
	}
	return nil
}

func (d *directory) close() error { return d.lock.Close() }
