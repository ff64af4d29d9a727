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
	// oldSuffix ended the name of a state that an earlier version of this program was writing.
	oldSuffix = ".new"
	// maxSeen is how many ids and digests are remembered, two for a notification.
	// A hub that crashed repeats what it delivered shortly before; this is far more.
	maxSeen = 1000
	// stateVersion rises when an earlier program would read the file wrongly.
	stateVersion = 1
)

// state is what must outlive the process.
type state struct {
	// Version is stateVersion of who wrote it; 0 before there was one.
	Version int `json:"version,omitempty"`
	// Topic is Config.Topic: whom the directory belongs to.
	Topic        string        `json:"topic"`
	Subscription *subscription `json:"subscription,omitempty"`
	// LastUntil is the until of the latest notification, as told: where the
	// next one must begin (CN §3).
	LastUntil string `json:"last_until,omitempty"`
	// Seen are the ids and the digests of the latest notifications, oldest first.
	Seen []string `json:"seen,omitempty"`
}

// subscription is what is agreed, or being agreed, with the hub.
type subscription struct {
	Hub      string `json:"hub"`
	Topic    string `json:"topic"` // hub.topic, the rel=self
	Callback string `json:"callback"`
	// Secret is the one that the hub verified last; Next that of the request
	// that it has not verified yet, during which it still signs by Secret
	// (WebSub §5.1); Previous what Secret was before, for deliveries under way
	// while it changed.
	Secret   string `json:"secret,omitempty"`
	Next     string `json:"next_secret,omitempty"`
	Previous string `json:"previous_secret,omitempty"`
	// Memory is where the hub has its change memory for the topic; empty: it has none.
	Memory string `json:"memory,omitempty"`
	// Lease is what was granted, in seconds, and LeaseEnd when it ends; zero
	// until the hub verified the first request.
	Lease    int64     `json:"lease_seconds,omitempty"`
	LeaseEnd time.Time `json:"lease_end,omitzero"`
}

// active tells whether the hub has verified it and the lease has not ended.
func (s *subscription) active(now time.Time) bool { return s != nil && now.Before(s.LeaseEnd) }

// renewAt is when to renew: when two thirds of the lease are over, which leaves
// time for a hub that is away.
func (s *subscription) renewAt() time.Time {
	return s.LeaseEnd.Add(-time.Duration(s.Lease) * time.Second / 3)
}

// secrets are all that a delivery may be signed by.
func (s *subscription) secrets() []string {
	return slices.DeleteFunc([]string{s.Secret, s.Next, s.Previous}, func(v string) bool { return v == "" })
}

// granted notes that the hub verified the request that is under way, or did so
// once more.
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

// directory is the data directory, held by this process alone.
type directory struct {
	path string
	lock *os.File
}

// openDirectory takes the directory and reads its state; a new one has the
// state of a topic without a subscription.
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

// sweep removes states that a crash has left half written: they have secrets.
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
		return nil, fmt.Errorf("%s is not what was written: %w", stateName, err)
	}
	if s.Version > stateVersion {
		return nil, fmt.Errorf("%s was made by a newer version of this program (%d; this one knows up to %d)", stateName, s.Version, stateVersion)
	}
	if s.Topic != topic {
		return nil, fmt.Errorf("it belongs to the topic %q; give each topic a directory of its own", s.Topic)
	}
	return s, nil
}

// save replaces the state; it is on disk when save returns nil, and the old one
// still is when it does not.
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
