package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"carillon/delivery"
	"carillon/internal/egress"
	"carillon/payload"
	"carillon/subscription"
)

// ErrTopicAway: the server of a topic could not be asked, or could not answer:
// no connection, no answer in time, 5xx, 408 or 429. It may be different soon.
var ErrTopicAway = errors.New("the topic's server does not answer")

var (
	// errBusy: as much is being done at once as Config allows. It is ErrBusy to
	// package subscription, which asks for topic checks.
	errBusy = fmt.Errorf("too much at once in the hub: %w", subscription.ErrBusy)
	// errHostBusy: as many topics of one host wait to be fetched as Config allows.
	errHostBusy = errors.New("too many topics of one host")
	// errTooFast: a client sends more than Config.ClientRate.
	errTooFast = errors.New("too many requests of one client")
	// errAsksTooFast: a Source asks more than Config.AnswerRate.
	errAsksTooFast = errors.New("too many questions of one Source")
	// errTopicBusy: the topic's site is in bad standing and was asked just now. It is
	// ErrBusy to package subscription.
	errTopicBusy = fmt.Errorf("topics of this site have refused many times in a row: %w", subscription.ErrBusy)
	// errReadsBusy: a client has as many readings of the memory under way as Config allows.
	errReadsBusy = errors.New("too many readings of one client")
	// errMoved: the log was trimmed, or replaced, while it was looked through.
	errMoved = errors.New("the log changed while it was read")
	// errCutOff: an answer broke off after its header was sent. The connection has to end with it, so that
	// no client takes the part for the whole.
	errCutOff = errors.New("the answer broke off")
	// errPingsBusy: as many topics wait to be fetched as the store takes.
	errPingsBusy = errors.New("too many pings wait")
	// errClosing: the hub is shutting down.
	errClosing = errors.New("shutting down")
)

// requestError is a refusal with a text for the client. The cause, if there is
// one, is for the log alone.
type requestError struct {
	status  int
	message string
	cause   error
}

// Error returns the text for the client, and the cause.
func (e *requestError) Error() string {
	if e.cause != nil {
		return e.message + " (" + e.cause.Error() + ")"
	}
	return e.message
}

// Unwrap returns the cause.
func (e *requestError) Unwrap() error { return e.cause }

func refuse(status int, format string, args ...any) error {
	return &requestError{status: status, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// answer is what an error becomes on the wire.
type answer struct {
	status  int
	message string
	// retry: the same request may succeed later; Retry-After says when to try.
	retry bool
	// silent: no client is left to read an answer.
	silent bool
	// ours: the cause is to be logged as an error.
	ours bool
	// limit is which limit was met, for the metrics.
	limit limitMet
}

// answers is the table from errors to answers; the first that matches counts. The answers of net/http
// itself are not in it: 400 to invalid HTTP, and 431 where request line and header together are longer
// than the server's MaxHeaderBytes. It has no 414; an address in a form or a Link that is longer than
// Config.MaxURL is 400, as it is not the request's own.
var answers = []struct {
	err    error
	answer answer
}{
	{errClosing, answer{
		status: http.StatusServiceUnavailable, message: "The hub is shutting down. Try again later.", retry: true,
	}},
	{
		errTooFast,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Too many requests came from your network. Try again later.", retry: true,
			limit: limitRate,
		},
	},
	{
		errAsksTooFast,
		answer{
			status:  http.StatusTooManyRequests,
			message: "You ask too often what became of your notifications. Try again later.",
			retry:   true, limit: limitRate,
		},
	},
	{
		errReadsBusy,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Too many readings of the change memory are under way in your network. Try again later.",
			retry:   true, limit: limitReadings,
		},
	},
	{errMoved, answer{
		status:  http.StatusServiceUnavailable,
		message: "The log of this topic was trimmed meanwhile. Try again later.", retry: true,
	}},
	{
		errTopicBusy,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Topics of this host did not name this hub, or did not answer, many times in a row. Try again later.",
			retry:   true, limit: limitTopicHost,
		},
	},
	{errBusy, answer{
		status: http.StatusServiceUnavailable, message: "The hub is busy. Try again later.",
		retry: true, limit: limitBusy,
	}},
	{
		errHostBusy,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Too many topics of this host wait to be fetched. Try again later.",
			retry:   true, limit: limitPings,
		},
	},
	{errPingsBusy, answer{
		status:  http.StatusTooManyRequests,
		message: "Too many topics wait to be fetched. Try again later.", retry: true,
		limit: limitPings,
	}},
	{
		subscription.ErrHostBusy,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Too many requests for the host of this callback, or of this topic, wait to be verified. Try again later.",
			retry:   true, limit: limitHost,
		},
	},
	{
		subscription.ErrClientBusy,
		answer{
			status:  http.StatusTooManyRequests,
			message: "Too many requests from your network wait to be verified. Try again later.",
			retry:   true, limit: limitClient,
		},
	},
	{
		subscription.ErrBusy,
		answer{
			status:  http.StatusServiceUnavailable,
			message: "Too many requests wait to be verified. Try again later.", retry: true,
			limit: limitBusy,
		},
	},
	{
		delivery.ErrUnavailable,
		answer{
			status:  http.StatusServiceUnavailable,
			message: "The hub cannot store anything at the moment. Try again later.", retry: true,
			ours: true,
		},
	},
	{
		ErrTopicAway,
		answer{
			status:  http.StatusBadGateway,
			message: "The topic's server did not answer the hub's check whether it names this hub. Try again later.",
			retry:   true,
		},
	},
	{egress.ErrForbidden, answer{
		status: http.StatusForbidden, message: "The address is not one that this hub makes requests to.",
	}},
	{os.ErrDeadlineExceeded, answer{status: http.StatusRequestTimeout, message: "The body did not arrive in time."}},
	{io.ErrUnexpectedEOF, answer{status: http.StatusBadRequest, message: "The body ended before it was complete."}},
	{context.Canceled, answer{silent: true}},
	{
		context.DeadlineExceeded,
		answer{
			status:  http.StatusServiceUnavailable,
			message: "The hub did not get this done in time. Try again later.", retry: true,
			ours: true,
		},
	},
}

// answerFor looks an error up: those with a text of their own first, then the table. An error in
// neither is the hub's own fault, and its answer reveals nothing of it.
func answerFor(err error) answer {
	var (
		request *requestError
		refusal *subscription.Refusal
		invalid *payload.Invalid
		tooLong *http.MaxBytesError
	)
	switch {
	case errors.As(err, &request):
		return answer{status: request.status, message: request.message}
	case errors.As(err, &refusal):
		return answer{
			status: http.StatusForbidden, message: "The hub does not take this topic: " + refusal.Reason + ".",
		}
	case errors.As(err, &invalid):
		return answer{
			status:  http.StatusBadRequest,
			message: "The body is a ResourceSync notification that breaks a rule: " + invalid.Error() + ".",
		}
	case errors.As(err, &tooLong):
		return answer{
			status:  http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("The body is longer than %d bytes.", tooLong.Limit),
		}
	}
	for _, row := range answers {
		if errors.Is(err, row.err) {
			return row.answer
		}
	}
	return answer{status: http.StatusInternalServerError, message: "Something went wrong in the hub.", ours: true}
}

// writeText answers with a line of plain text.
func writeText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	// As Header.Set does it, but without a look at the names and with one allocation.
	values := [...]string{"text/plain; charset=utf-8", "nosniff", strconv.Itoa(len(text) + 1)}
	h["Content-Type"] = values[0:1:1]
	h["X-Content-Type-Options"] = values[1:2:2]
	h["Content-Length"] = values[2:3:3]
	w.WriteHeader(status)
	_, _ = w.Write(append(append(make([]byte, 0, len(text)+1), text...), '\n'))
}

// retryAfter writes a delay as whole seconds, at least one.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
