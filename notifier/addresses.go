package notifier

import "fmt"

// addresses are the public URIs of a notifier.
type addresses struct{ base, hub string }

// of returns the URI of a public path below the base.
func (a addresses) of(path string) string { return a.base + path }

func (a addresses) topic(set string) string { return a.of(set + "/change/") }

func (a addresses) capabilityList(set string) string { return a.of(set + "/capabilitylist.xml") }

func (a addresses) description() string { return a.of(".well-known/resourcesync") }

// links returns the value of the Link header that a topic, and every notification of it, has:
// self, hub (CN §4.1) and the Capability List.
func (a addresses) links(set string) string {
	return fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub", <%s>; rel="resourcesync"`,
		a.topic(set), a.hub, a.capabilityList(set))
}
