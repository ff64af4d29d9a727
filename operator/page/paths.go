package page

import (
	"net/url"

	"carillon/subscription"
)

func subscriptionPath(id subscription.ID) string { return "/subscription/" + id.String() }

// topicPath is the page of a topic.
func topicPath(topic string) string { return "/topic?topic=" + url.QueryEscape(topic) }

// sourcePath is the page of a change of a Source.
func sourcePath(name, what string) string { return "/sources/" + url.PathEscape(name) + "/" + what }

// checkPath is the page that checks these URLs, and checkLivePath the stream of what it finds.
func checkPath(places ...string) string { return "/check?" + url.Values{"url": places}.Encode() }

func checkLivePath(places ...string) string {
	return "/check/live?" + url.Values{"url": places}.Encode()
}

// with returns the query with one value set, or taken away where it is empty: for links to
// the same question with another page.
func with(q url.Values, name, value string) string {
	next := url.Values{}
	for n, v := range q {
		if n != "done" && len(v) > 0 && v[0] != "" {
			next[n] = v[:1]
		}
	}
	next.Del(name)
	if value != "" {
		next.Set(name, value)
	}
	return "?" + next.Encode()
}
