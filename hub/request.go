package hub

import (
	"context"
	"net/http"

	"carillon/internal/egress"
)

// request makes a request of the hub's own. The address stands in its first line
// byte for byte, as in the deliveries: a callback is verified where it is
// delivered to (WebSub §5.1.1, §8.3). The error is egress.ErrBadURL.
func (c Config) request(ctx context.Context, method, address string) (*http.Request, error) {
	target, err := egress.Target(address)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "/", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = target, target.Host
	req.Header.Set("User-Agent", c.userAgent())
	// The answer is looked at as it is; it is never decompressed.
	req.Header.Set("Accept-Encoding", "identity")
	return req, nil
}
