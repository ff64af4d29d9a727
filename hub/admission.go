package hub

import "carillon/subscription"

// admit reserves room for the topics of a ping that do not wait yet: errBusy if too
// many wait in all, errHostBusy if too many of one host do. The room is held until
// release is called, after add or where the ping came to nothing.
func (f *fetcher) admit(topics []string) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []string
	for _, topic := range topics {
		if f.jobs[subscription.Key(topic)] == nil {
			hosts = append(hosts, fetchedHost(topic))
		}
	}
	for i, host := range hosts {
		err := f.reserve(host)
		if err != nil {
			f.unreserve(hosts[:i]...)
			return nil, err
		}
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unreserve(hosts...)
	}, nil
}

// reserve counts one more topic of the host. The caller holds mu.
func (f *fetcher) reserve(host string) error {
	switch {
	case f.total >= f.cfg.MaxPings:
		return errBusy
	case f.byHost[host] >= f.cfg.MaxPingsPerHost, f.byHost[host] >= maxBadPings && f.pace.bad(host):
		return errHostBusy
	}
	f.count(host)
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
