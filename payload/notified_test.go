package payload_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"carillon/payload"
)

// FuzzReadNotification compares the one pass with IsNotification, ValidateNotification and a
// Reader, which look at the document one after the other.
func FuzzReadNotification(f *testing.F) {
	broken := strings.Repeat("<url/>", payload.MaxViolations+1)
	for _, doc := range append(seeds(f),
		urlset(goodHead+broken),
		urlset(goodHead+broken)+"<",
		strings.TrimSuffix(urlset(goodHead+goodURL), "</urlset>"),
		urlset(goodHead+strings.Repeat(goodURL, 2000)),
		urlset(goodHead+"<!--"+strings.Repeat(" ", 64<<10)+"-->"+goodURL),
		urlset(goodHead+strings.Repeat(`<rs:ln rel="up" href="http://h/"/>`, 3000)+goodURL),
		urlset("<!--"+strings.Repeat(" ", 64<<10)+"-->"+goodHead+goodURL),
		urlset(goodHead+goodURL+goodHead),
	) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		got, err := payload.ReadNotification([]byte(doc), payload.Limits{})
		if is := payload.IsNotification([]byte(doc)); is != (got != nil) {
			t.Fatalf("read: %v, recognized: %v", got != nil, is)
		}
		if got == nil {
			return
		}
		_, want := payload.ValidateNotification(strings.NewReader(doc))
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Errorf("judged %v, by the validator %v", err, want)
		}
		h, entries, cause := readAll(doc, payload.Limits{})
		if cause != nil {
			if stopped := errors.Unwrap(err); stopped == nil || stopped.Error() != cause.Error() ||
				got.Entries != nil {
				t.Errorf("%d entries, stopped by %v; the Reader by %v", len(got.Entries), stopped, cause)
			}
			return
		}
		for i := range got.Entries {
			got.Entries[i] = unlined(got.Entries[i])
		}
		if errors.Unwrap(err) != nil || !reflect.DeepEqual(got.Entries, entries) ||
			!reflect.DeepEqual(got.Header, h) {
			t.Errorf("got %+v, %v\nwant %+v, %+v", got, err, h, entries)
		}
	})
}

// ReadNotification obeys the limit of bytes that its caller names.
func TestReadNotificationOverLimit(t *testing.T) {
	doc := urlset(goodHead + strings.Repeat(goodURL, 1000))
	n, err := payload.ReadNotification([]byte(doc), payload.Limits{Bytes: int64(len(doc)) - 1})
	if n == nil || n.Entries != nil || !errors.Is(err, payload.ErrTooLarge) {
		t.Errorf("got %+v, %v", n, err)
	}
	n, err = payload.ReadNotification([]byte(doc), payload.Limits{Bytes: int64(len(doc))})
	if n == nil || len(n.Entries) != 1000 || err != nil {
		t.Errorf("got %+v, %v", n, err)
	}
}
