package send_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/topic"
)

// An HTTPSender alone makes one attempt and gives the outcome of it.
func ExampleHTTPSender() {
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer callback.Close()
	out, err := egress.New(egress.Config{AllowLoopback: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	sender, err := send.NewHTTPSender(send.Config{Hub: "https://hub.example/websub/"}, out)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := sender.Send(context.Background(), &send.Attempt{
		Callback:     callback.URL + "/hook",
		Secret:       "a secret of the subscriber",
		Notification: &delivery.Notification{Publication: delivery.Publication{Topic: topic.Parse("https://example.com/change/")}},
		Number:       1,
	})
	fmt.Println(outcome.Class, outcome.Status, outcome.RetryAfter)
	// Output: client_error 429 2m0s
}
