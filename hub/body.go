package hub

import (
	"errors"
	"net/http"

	"carillon/internal/bodies"
)

// readBody reads the whole body of a request, whose memory stays counted until
// release is called, also after an error: *http.MaxBytesError beyond limit,
// os.ErrDeadlineExceeded if the client stops in the middle or is too slow, errBusy
// if there is no room.
func (h *Hub) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	held := h.bodies.Hold()
	body, err = bodies.Read(w, r, limit, bodies.Pace{Idle: h.cfg.BodyIdle, Rate: h.cfg.BodyRate, Timeout: h.cfg.BodyTimeout}, &held)
	if err != nil {
		return nil, held.Release, readError(err)
	}
	return body, held.Release, nil
}

// readError keeps the errors of reading that the table of answers knows; every
// other says that the body broke off or was not HTTP.
func readError(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) || errors.Is(err, errBusy) || answerFor(err).status == http.StatusRequestTimeout ||
		answerFor(err).status == http.StatusBadRequest {
		return err
	}
	return &requestError{http.StatusBadRequest, "The body could not be read to its end.", err}
}
