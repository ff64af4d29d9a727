package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// The paths of the sink.
const (
	pathCallback = "/callback/" // counted, 204
	pathHeld     = "/held/"     // the same, but waits while the sink holds
	pathHang     = "/hang/"     // never answered
	pathFail     = "/fail/"     // 500
	pathSlow     = "/slow/"     // 204 after slowAnswer
	pathTopic    = "/topic/"    // the links of a topic
)

// slowAnswer is how long a slow callback takes.
const slowAnswer = time.Second

// hubURL is the hub URI of every hub. The topics name it, and a store keeps its topics when
// another hub opens it, so it does not change with the port that a hub listens on. Its host is
// loopback, which allows loopback callbacks.
const hubURL = "http://127.0.0.1:1/websub/"

// hostIP is a loopback address for each i.
func hostIP(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250) }

// tlsCallback is the i-th callback of a sink with TLS. Neighbors are on different hosts.
func tlsCallback(port string, hosts, i int) string {
	return fmt.Sprintf("https://%s:%s%s%d", hostIP(i%hosts), port, pathCallback, i)
}

// secretOf is the secret of the i-th callback.
func secretOf[T int | string](i T) string { return fmt.Sprintf("secret-%v", i) }

// way is how long a body was under way.
type way struct {
	Burst int64 // the number of its publication
	Took  int64 // nanoseconds from its publication to its arrival at the sink
}

// A timed body begins with a stamp: "at=", the time of publication in Unix nanoseconds, and the
// number of the publication.
const stampSize = len("at=1234567890123456789;12345;")

// stamped makes a body of n bytes that begins with a stamp.
func stamped(at time.Time, burst, n int) []byte {
	body := append(make([]byte, 0, n+stampSize), "at="...)
	body = strconv.AppendInt(body, at.UnixNano(), 10) // 19 digits, from 2001 to 2262
	body = append(body, ';')
	body = strconv.AppendInt(body, int64(10_000+burst%90_000), 10)
	body = append(body, ';')
	if n > len(body) {
		body = append(body, content(n-len(body))...)
	}
	return body
}

// readStamp reads a stamp at the start of a body.
func readStamp(body []byte) (at int64, burst int, ok bool) {
	if len(body) < stampSize || !bytes.HasPrefix(body, []byte("at=")) {
		return 0, 0, false
	}
	at, err := strconv.ParseInt(string(body[3:22]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	burst, err = strconv.Atoi(string(body[23:28]))
	return at, burst - 10_000, err == nil
}

// content is a body of n bytes that no store can make smaller, and that bears no stamp.
func content(n int) []byte {
	body := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it always fills it
	return body
}
