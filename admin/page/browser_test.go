package page_test

import (
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"carillon/admin/page"
	"carillon/internal/browsertest"
)

func serve(t *testing.T, d *desk) string {
	t.Helper()
	s := httptest.NewServer(page.New(page.Config{Desk: d, Version: "0.6.0", Level: &level{name: "info"}}))
	t.Cleanup(s.Close)
	return s.URL
}

// views are pages to look at.
func views(d *desk) map[string]string {
	sub, busy := d.subs[0], d.topics[3]
	for _, s := range d.subs {
		if s.State == "failing" {
			sub = s
		}
	}
	for _, t := range d.topics {
		if t.Subscriptions == 50_000 {
			busy = t
		}
	}
	topic := url.QueryEscape(busy.Topic)
	return map[string]string{
		"overview": "/", "topics": "/topics", "topic": "/topic?topic=" + topic, "hostile": "/topic?topic=" + url.QueryEscape(hostileTopic),
		"notification":  "/notification?id=" + notificationID(busy.Topic, busy.Head-7).String() + "&topic=" + topic,
		"delivered":     "/notification?id=" + notificationID(busy.Topic, busy.Head-10).String() + "&topic=" + topic,
		"subscriptions": "/subscriptions", "subscription": "/subscription/" + sub.ID.String(), "retry": "/subscription/" + sub.ID.String() + "/retry",
		"replay": "/subscription/" + sub.ID.String() + "/replay?from_seq=140&last_seq=143", "remove": "/subscription/" + sub.ID.String() + "/remove?done=retry",
		"trim": "/topic/trim?topic=" + topic, "sources": "/sources", "revoke": "/sources/library/revoke", "listen": "/listen?topic=" + url.QueryEscape(hostileTopic),
		"login": "/login?failed=1", "wrong": "/subscriptions?lag_over=much",
	}
}

// TestPictures saves a picture of each view in the directory that CARILLON_PICTURES names,
// for people to look at.
func TestPictures(t *testing.T) {
	dir := os.Getenv("CARILLON_PICTURES")
	if dir == "" {
		return
	}
	b := browsertest.Start(t)
	world := newWorld()
	worlds := map[string]string{"": serve(t, world), "empty-": serve(t, newEmpty()), "troubled-": serve(t, newTroubled())}
	for prefix, origin := range worlds {
		tab := b.Tab(t, origin)
		for name, path := range views(world) {
			if prefix != "" && name != "overview" && name != "topics" && name != "subscriptions" && name != "sources" && name != "listen" {
				continue
			}
			for _, look := range []struct {
				name  string
				width int64
				dark  bool
			}{{"wide-light", 1280, false}, {"wide-dark", 1280, true}, {"narrow-light", 390, false}, {"narrow-dark", 390, true}} {
				tab.Window(look.width, 900, look.dark)
				tab.Open(path)
				tab.Picture(filepath.Join(dir, prefix+name+"-"+look.name+".png"))
			}
		}
		tab.Errors() // some pages have a status that the console tells of
	}
}
