package hub

import (
	"carillon/topic"
)

// counted is where a topic that does not wait yet is counted.
type counted struct {
	host string
	// few: the site is in bad standing, and the topic nothing that anybody is known to
	// want, so that only maxBadPings of its like may wait.
	few bool
}

// admit reserves room for the topics of a ping that do not wait yet: errBusy if too
// many wait in all, errHostBusy if too many of one host do. The room is held until
// release is called, after add or where the ping came to nothing.
func (f *fetcher) admit(topics []topic.Address) (release func(), err error) {
	all := make([]counted, len(topics))
	for i, at := range topics {
		host := fetchedHost(at)
		all[i] = counted{host, f.pace.bad(host) && !f.known(at)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []string
	for i, at := range topics {
		if f.jobs[at.Key()] != nil {
			continue
		}
		if err := f.reserve(all[i]); err != nil {
			f.unreserve(hosts...)
			return nil, err
		}
		hosts = append(hosts, all[i].host)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unreserve(hosts...)
	}, nil
}

// reserve counts one more topic. The caller holds mu.
func (f *fetcher) reserve(c counted) error {
	switch waiting := f.byHost[c.host]; {
	case f.total >= f.cfg.MaxPings:
		return errBusy
	case waiting >= f.cfg.MaxPingsPerHost, waiting >= maxBadPings && c.few:
		return errHostBusy
	}
	f.count(c.host)
	return nil
}

// count counts one more topic of the host, also beyond the bounds: what was
// answered before the process began is carried out. The caller holds mu.
func (f *fetcher) count(host string) {
	f.total++
	f.byHost[host]++
}

// unreserve counts one topic less of each host. The caller holds mu.
func (f *fetcher) unreserve(hosts ...string) {
	for _, host := range hosts {
		f.total--
		if f.byHost[host]--; f.byHost[host] == 0 {
			delete(f.byHost, host)
		}
	}
}
