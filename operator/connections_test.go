package operator_test

import (
	"context"
	"testing"

	"carillon/delivery/send"
	"carillon/operator"
	"carillon/subscription"
)

// Each process reports its own connections, and the overview adds them up, whichever is asked. A
// process without connections reports zeros.
func TestConnectionsOfProcesses(t *testing.T) {
	own := map[string]send.Connections{
		"a": {
			Open: 10, Idle: 7, MaxOpen: 100, Hosts: 5, RememberedHosts: 3, IdleBytes: 700, MaxIdleBytes: 1000, SessionBytes: 80, MaxSessionBytes: 90,
			Plain: 1, Full: 20, Resumed: 300, Dropped: 4000,
		},
		"b": {
			Open: 1, Idle: 1, MaxOpen: 200, Hosts: 1, RememberedHosts: 1, IdleBytes: 1, MaxIdleBytes: 2000, SessionBytes: 1, MaxSessionBytes: 60,
			Plain: 1, Full: 1, Resumed: 1, Dropped: 1,
		},
		"c": {},
	}
	want := operator.Connections{
		Open: 11, Idle: 8, MaxOpen: 300, Hosts: 6, RememberedHosts: 4, IdleBytes: 701, MaxIdleBytes: 3000, SessionBytes: 81, MaxSessionBytes: 150,
		Plain: 2, Full: 21, Resumed: 301, Dropped: 4001,
	}
	db := openStore(t)
	s := &fakePeers{live: map[string]func(context.Context, []byte) []byte{}}
	services := map[string]*operator.Service{}
	for name, shards := range map[string]func(subscription.Shard) bool{"a": even, "b": odd, "c": func(subscription.Shard) bool { return false }} {
		services[name] = newService(t, db, newFake(1, shards), func(c *operator.Config) {
			c.Peers = fakePeer{s, name}
			if name != "c" {
				c.Connections = func() send.Connections { return own[name] }
			}
		})
		s.live[name] = services[name].AnswerTo
	}
	for name, service := range services {
		o, err := service.Overview(t.Context())
		if err != nil || o.Connections != want || len(o.Processes) != 3 {
			t.Errorf("asked %s: %+v %v, want %+v", name, o.Connections, err, want)
		}
		for _, p := range o.Processes {
			if p.Connections.Open != own[p.ID].Open || p.Connections.Dropped != own[p.ID].Dropped || p.Connections.MaxIdleBytes != own[p.ID].MaxIdleBytes {
				t.Errorf("asked %s: %s has %+v", name, p.ID, p.Connections)
			}
		}
	}
}
