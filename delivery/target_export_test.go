package delivery

import "strings"

// SplitTarget is what the HTTPSender makes of a callback that comes from the table, and
// whether it came in two parts.
func SplitTarget(callback string) (secure bool, authority, target string, split bool, err error) {
	d := &Dispatcher{splits: true, hosts: map[string]*host{}}
	h := d.hostOf(origin(callback))
	e := &entry{host: h, text: strings.TrimPrefix(callback, h.name)}
	if !strings.HasPrefix(callback, h.name) {
		e.text, e.rare = "", &rare{callback: callback}
	}
	var a Attempt
	d.aim(&a, h, e)
	secure, authority, target, err = a.target()
	return secure, authority, target, a.host != nil, err
}
