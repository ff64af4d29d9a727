package h1_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"carillon/internal/h1"
)

// A handshake whose context ends just as it gets a slot may still write the bytes that crypto/tls had
// put aside. It must not stay in line for a slot that would never be given back.
func TestSlotAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, newPlace(t, 0, 0).config())
		for range 20 {
			client.EndAsItGetsASlot(synctest.Wait)
			free, begun, ready := client.Paced()
			equal(t, "free slots", free, client.Slots())
			equal(t, "begun", begun, 0)
			equal(t, "in line", ready, 0)
		}
	})
}

// compute has handshakes with other hosts hold all slots for so long.
func (p *place) compute(t *testing.T, cfg *h1.Config, slots int, so time.Duration) func(*h1.Client) {
	t.Helper()
	busy := make(chan bool, slots)
	cfg.TLS.VerifyConnection = func(tls.ConnectionState) error {
		select {
		case <-busy:
			time.Sleep(so)
		default:
		}
		return nil
	}
	return func(client *h1.Client) {
		for i := range slots {
			busy <- true
			go func() { _, _ = client.Post(t.Context(), to(t, 1000+i)) }()
			synctest.Wait()
		}
	}
}

// The time that a host waits for our own processors is given back to all its requests, also to those
// that use the connection that another one opens then.
func TestAllInLineHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, 300*ms)
		cfg := p.config()
		cfg.Timeout, cfg.MaxConnsPerHost = 4*time.Second, 1
		compute := p.compute(t, &cfg, runtime.GOMAXPROCS(0), 3900*ms)
		client := newClient(t, cfg)
		compute(client)
		burst(t, client, 1, 5)
		time.Sleep(10 * time.Second)
		client.CloseIdleConnections()
	})
}

// A request whose host begins to wait for a slot only after its deadline ends there.
func TestLateInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, 0, ms)
		cfg := p.config()
		cfg.Timeout, cfg.MaxConnsPerHost = 4*time.Second, 1
		compute := p.compute(t, &cfg, runtime.GOMAXPROCS(0), 3*time.Second)
		client := newClient(t, cfg)
		p.hang <- true
		// One without a deadline holds the only connection of the host.
		ctx, cancel := context.WithCancel(t.Context())
		get, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://h0.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := client.RoundTrip(get); err == nil {
				resp.Body.Close()
			}
		}()
		time.Sleep(1030 * ms)
		begin, ended := time.Now(), make(chan error)
		go func() {
			_, err := client.Post(t.Context(), to(t, 0))
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		compute(client)
		time.Sleep(2020 * ms)
		cancel() // it loses the connection, and the host waits for a slot
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 4200*ms {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		time.Sleep(10 * time.Second)
		client.CloseIdleConnections()
	})
}
