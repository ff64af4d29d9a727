package dispatch

// Surveys of the table. There may be a million answers, so they are gathered a stretch at a time: no
// caller waits long for the mutex.

// surveyStretch is how many entries or topics are looked at under one hold of the mutex.
const surveyStretch = 1024

// eachTopic calls f under mu for every topic, for some twice.
func (tb *table) eachTopic(f func(t *followed)) {
	tb.backward(func() int { return len(tb.topicList) }, func(first, end int) {
		for _, t := range tb.topicList[first:end] {
			f(t)
		}
	})
}

// backward calls some for stretches of a list from its end to the front, under mu, with a bound on the
// index that is looked at next. size returns the present length of the list. An element that is
// removed meanwhile gives its place to the last one, which was looked at already. So all elements that
// are there throughout are seen, and some may be seen twice.
func (tb *table) backward(size func() int, some func(first, end int)) {
	tb.mu.Lock()
	for end := size(); end > 0; {
		first := max(0, end-surveyStretch)
		some(first, end)
		tb.mu.Unlock()
		tb.mu.Lock()
		end = min(first, size())
	}
	tb.mu.Unlock()
}

// eachEntry calls f under mu for every entry of a shard that is in it throughout,
// for some more than once. It returns false if the shard is not held any more.
func (tb *table) eachEntry(sh *shardTable, f func(e *entry)) (held bool) {
	const patience = 8 // walks that came to nothing before one is under a single hold
	held = true
	for again, stretch := 0, surveyStretch; ; again++ {
		if again == patience {
			stretch = 0
		}
		if moved, ended := tb.walkShard(sh, stretch, f); ended || !moved {
			return !ended
		}
	}
}

// walkShard is one walk of eachEntry, in stretches, 0: of any length. It reports whether entries have
// moved so that it may have missed some.
func (tb *table) walkShard(sh *shardTable, stretch int, f func(e *entry)) (moved, ended bool) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	before := sh.entries.moved
	for end := len(sh.entries.slots); end > 0; {
		if !tb.stays(sh) {
			return false, true
		}
		if sh.entries.moved != before {
			return true, false
		}
		first := 0
		if stretch > 0 {
			first = max(0, end-stretch)
		}
		for _, e := range sh.entries.slots[first:end] {
			if e != nil {
				f(e)
			}
		}
		if end = first; end > 0 {
			tb.mu.Unlock()
			tb.mu.Lock()
		}
	}
	return false, !tb.stays(sh)
}
