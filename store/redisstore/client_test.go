package redisstore_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"carillon/store/redisstore"
)

// lazily reads size bytes from c, some at a time with a pause between.
func lazily(t *testing.T, c net.Conn, size, some int, pause time.Duration) {
	for read := 0; read < size; {
		time.Sleep(pause)
		n, err := io.ReadFull(c, make([]byte, min(some, size-read)))
		if read += n; err != nil {
			t.Errorf("after %d bytes: %v", read, err)
			return
		}
	}
}

func TestAGreatBodyTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go lazily(t, far, 1<<20, 64<<10, time.Second)
		c := redisstore.Steady(near)
		began := time.Now()
		must(t, c.SetWriteDeadline(time.Now().Add(redisstore.SilenceTime)))
		if n, err := c.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Errorf("%d bytes were written: %v", n, err)
		}
		if took := time.Since(began); took < 2*redisstore.SilenceTime {
			t.Errorf("it took %s, which tests nothing", took)
		}
	})
}

func TestAGreatAnswerTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() {
			for range 10 {
				time.Sleep(3 * time.Second)
				if _, err := far.Write(make([]byte, 1000)); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		}()
		c := redisstore.Steady(near)
		must(t, c.SetReadDeadline(time.Now().Add(redisstore.SilenceTime)))
		if n, err := io.ReadFull(c, make([]byte, 10000)); err != nil {
			t.Errorf("%d bytes were read: %v", n, err)
		}
	})
}

// timedOut runs an exchange that must end by its limit, and reports when.
func timedOut(t *testing.T, exchange func(c, far net.Conn) error) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		began := time.Now()
		if err := exchange(redisstore.Steady(near), far); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got error %v, want %v", err, os.ErrDeadlineExceeded)
		}
		took = time.Since(began)
		must(t, errors.Join(near.Close(), far.Close()))
		time.Sleep(time.Second) // the other side wakes and sees it
	})
	return took
}

// kernel is a connection that takes what is written at once, as a system does that has room for
// it and sends it as fast as the way to the server is.
type kernel struct{ net.Conn }

func (kernel) Write(b []byte) (int, error) { return len(b), nil }

func TestABodyThatIsStillOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() {
			time.Sleep(10 * time.Second) // what 3 MiB take at 300 kB/s
			if _, err := far.Write([]byte("+")); err != nil {
				t.Errorf("write: %v", err)
			}
		}()
		c := redisstore.Steady(kernel{near})
		if _, err := c.Write(make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		must(t, c.SetReadDeadline(time.Now().Add(redisstore.SilenceTime)))
		if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
			t.Errorf("%d bytes were read: %v", n, err)
		}
	})
}

// TestSilenceAfterABody ends the exchange at last, and the next one as soon as ever.
func TestSilenceAfterABody(t *testing.T) {
	took := timedOut(t, func(c, far net.Conn) error {
		go lazily(t, far, 100<<20, 100<<20, 0)
		if _, err := c.Write(make([]byte, 100<<20)); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(redisstore.SilenceTime)); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	})
	if took != time.Minute {
		t.Errorf("it took %s, want a minute", took)
	}
	took = timedOut(t, func(c, far net.Conn) error {
		go func() {
			if _, err := io.ReadFull(far, make([]byte, 1<<20)); err != nil {
				t.Errorf("read: %v", err)
			}
			if _, err := far.Write([]byte("+")); err != nil {
				t.Errorf("write: %v", err)
			}
		}()
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(redisstore.SilenceTime)); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("the answer: %v", err)
		}
		if err := c.SetReadDeadline(time.Now().Add(redisstore.SilenceTime)); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	})
	if took != redisstore.SilenceTime {
		t.Errorf("after an answer it took %s, want %s", took, redisstore.SilenceTime)
	}
}

func TestSilenceEndsAnExchange(t *testing.T) {
	took := timedOut(t, func(c, far net.Conn) error {
		go lazily(t, far, 256<<10, 256<<10, 0) // and then nothing more
		if err := c.SetWriteDeadline(time.Now().Add(redisstore.SilenceTime)); err != nil {
			return err
		}
		_, err := c.Write(make([]byte, 1<<20))
		return err
	})
	if took != redisstore.SilenceTime {
		t.Errorf("it took %s, want %s", took, redisstore.SilenceTime)
	}
}

func TestAnExchangeEndsThoughItCrawls(t *testing.T) {
	took := timedOut(t, func(c, far net.Conn) error {
		go func() {
			for b := make([]byte, 1); ; time.Sleep(time.Second) {
				if _, err := far.Write(b); err != nil {
					return
				}
			}
		}()
		if err := c.SetDeadline(time.Now().Add(redisstore.SilenceTime)); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1<<20))
		return err
	})
	if took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestTheCallersLimitDoesNotMove(t *testing.T) {
	took := timedOut(t, func(c, far net.Conn) error {
		go func() {
			for b := make([]byte, 1); ; time.Sleep(time.Second / 10) {
				if _, err := far.Write(b); err != nil {
					return
				}
			}
		}()
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1<<20))
		return err
	})
	if took != time.Second {
		t.Errorf("it took %s, want a second", took)
	}
}
