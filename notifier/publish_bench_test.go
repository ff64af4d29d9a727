package notifier_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/notifier/journaltest"
)

// BenchmarkPublish reports the CPU time of an event from the request that brings it to the
// notification that the hub accepted, with its Change List.
func BenchmarkPublish(b *testing.B) {
	const events = 50_000
	var lines strings.Builder
	for i := range events {
		fmt.Fprintf(&lines, `{"loc":"https://source.example/records/%07d?format=xml&version=2",`+
			`"change":"updated","lastmod":"2026-03-01T08:59:58Z","length":14599,`+
			`"hash":"md5:1584abdf8ebdc9802ac0c6a7402c03b6","type":"application/xml",`+
			`"ln":[{"rel":"describedby","href":"https://source.example/%07d.rdf"}]}`+"\n", i, i)
	}
	least := time.Duration(math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, notifier.Config{MaxWait: time.Hour}, &hub{})
		intake, before := w.Intake(), cpu(b)
		b.StartTimer()
		body := strings.NewReader(lines.String())
		r := httptest.NewRequest(http.MethodPost, "/sets/default/events", body)
		r.Header.Set("Content-Type", "application/x-ndjson")
		answer := httptest.NewRecorder()
		intake.ServeHTTP(answer, r)
		if answer.Code != http.StatusAccepted {
			b.Fatal(answer.Code, answer.Body)
		}
		w.drain()
		list := httptest.NewRequest(http.MethodHead, "/default/changelist.xml", nil)
		w.Public().ServeHTTP(httptest.NewRecorder(), list) // which counts the list's entries
		b.StopTimer()
		least = min(least, cpu(b)-before)
		w.stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(least.Nanoseconds())/events, "least-cpu-ns/event")
}

// cpu returns the CPU time of the process.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkRecordSize measures one event for the bound of a request.
func BenchmarkRecordSize(b *testing.B) {
	e := journaltest.Created("https://source.example/records/0000001?format=xml", "default")
	for b.Loop() {
		notifier.RecordSize(&e)
	}
}
