package send

import "strings"

// SplitTarget is what the HTTPSender makes of a callback that comes from the table, and
// whether it came in two parts.
func SplitTarget(callback string) (secure bool, authority, target string, split bool, err error) {
	h := NewHost(Origin(callback))
	var a Attempt
	if rest, plain := strings.CutPrefix(callback, h.name); !plain || !a.Aim(&h, rest) {
		a.Callback = callback
	}
	secure, authority, target, err = a.target()
	return secure, authority, target, a.Host != nil, err
}
