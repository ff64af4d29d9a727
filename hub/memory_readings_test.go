package hub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/hub"
	"carillon/topic"
)

// deaf is a client that takes nothing until its connection is given up.
type deaf struct {
	*httptest.ResponseRecorder
	once  sync.Once
	given chan struct{}
}

func newDeaf() *deaf { return &deaf{httptest.NewRecorder(), sync.Once{}, make(chan struct{})} }

func (d *deaf) Write([]byte) (int, error) {
	<-d.given
	return 0, http.ErrHandlerTimeout
}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && !at.After(time.Now()) {
		d.once.Do(func() { close(d.given) })
	}
	return nil
}

// A client that reads a long notification and takes nothing keeps others out for a moment at most:
// neither by the memory that it holds, nor by its place. The slowest is cut off for the next.
func TestMemoryOfTheSlow(t *testing.T) {
	for name, c := range map[string]struct {
		readings int
		room     int64
	}{"by room": {64, 40_000_000}, "by place": {2, 400_000_000}} {
		t.Run(name, func(t *testing.T) {
			big := &fakeLog{}
			big.add(10, wroteOf(t, minute(0), minute(1), "", minute(0)), 5_000_000)
			m := newRemembering(t, big, func(c2 *hub.Config) {
				c2.MaxBody, c2.MaxBodiesBytes, c2.MemoryReadings = 5_000_000, c.room, c.readings
			})
			synctest.Test(t, func(t *testing.T) {
				var over sync.WaitGroup
				slow := func(client string) *deaf {
					d := newDeaf()
					over.Go(func() {
						defer func() {
							if v := recover(); v != http.ErrAbortHandler {
								t.Errorf("%s: %v", client, v)
							}
						}()
						r := httptest.NewRequest(http.MethodGet, "/websub/memory?"+since(told(minute(0))).Encode(), nil)
						r.RemoteAddr = client
						m.handler.ServeHTTP(d, r)
					})
					synctest.Wait()
					return d
				}
				first := slow("192.0.2.1:1")
				time.Sleep(time.Second)
				second := slow("192.0.2.2:1")
				ask := func() int { return m.from("192.0.2.3:1", since(told(minute(0)))).Code }
				if got := ask(); got != 503 {
					t.Errorf("at once: %d", got)
				}
				time.Sleep(10 * time.Second)
				if got := ask(); got != 200 {
					t.Errorf("when they have had their time: %d", got)
				}
				synctest.Wait()
				select {
				case <-second.given:
					t.Error("the second was cut off, too")
				case <-first.given:
				default:
					t.Error("the first was not cut off")
				}
				_ = second.SetWriteDeadline(time.Now())
				over.Wait()
				if got := value(t, m.registry, "carillon_hub_memory_readings", ""); got != 0 {
					t.Errorf("%v readings under way", got)
				}
			})
		})
	}
}

// The cost of a reading counts against the client: one that has much looked up, or read, for an answer
// of a few bytes may do it less often.
func TestMemoryCosts(t *testing.T) {
	many := &fakeLog{}
	for n := range 10_000 {
		at := minute(0).Add(time.Duration(n) * time.Second)
		many.add(delivery.Seq(n+1), delivery.Publication{Topic: topic.Parse(memoryTopic), From: told(at), Until: told(at.Add(time.Second))}, 100)
	}
	long := &fakeLog{}
	p := wroteOf(t, minute(0), minute(1), "", minute(0))
	p.Body = append([]byte(strings.Repeat("<!--"+strings.Repeat("x", 1<<10)+"-->", 4100)), p.Body[strings.Index(string(p.Body), "<urlset"):]...)
	long.add(1, p, int64(len(p.Body)))
	for name, c := range map[string]struct {
		log    *fakeLog
		method string
		from   time.Time
		times  int // that it may be done at once
	}{
		"nothing new":        {many, http.MethodHead, minute(0).Add(10_000 * time.Second), 20},
		"a long chain":       {many, http.MethodHead, minute(0), 2},
		"a long body":        {long, http.MethodGet, minute(0), 4},
		"a head of it":       {long, http.MethodHead, minute(0), 20},
		"again, as it was":   {many, "304", minute(0), 2},
		"nothing new at all": {long, http.MethodGet, minute(1), 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newRemembering(t, c.log, func(c *hub.Config) { c.MemoryRate, c.MemoryBurst = 1, 20 })
				target, tag := "/websub/memory?"+since(told(c.from)).Encode(), ""
				done := 0
				for ; done < 100; done++ {
					r := httptest.NewRequest(strings.Replace(c.method, "304", "HEAD", 1), target, nil)
					r.RemoteAddr = fmt.Sprintf("192.0.2.1:%d", done+1)
					if c.method == "304" && tag != "" {
						r.Header.Set("If-None-Match", tag)
					}
					w := httptest.NewRecorder()
					m.handler.ServeHTTP(w, r)
					if tag = w.Header().Get("ETag"); w.Code == http.StatusTooManyRequests {
						break
					}
				}
				if done != c.times {
					t.Errorf("%d times at once, want %d", done, c.times)
				}
			})
		})
	}
}
