// Package tracing makes OpenTelemetry traces of what a hub does, and sends them to the
// collector that its operator names (OTLP over HTTP, by the standard variables).
//
// One trace holds a publication and every attempt to deliver it, also those after a
// restart and those of other processes, though nothing more is stored and no process tells
// another: the trace's ID, and that of the span of the publication, are made from the
// notification's ID (idsOf). So does the trace of a subscription request hold every
// verification of it.
//
//	publish ──┬── log append
//	          ├── deliver (1st attempt, callback A)
//	          ├── deliver (1st attempt, callback B: failed)
//	          └── deliver (2nd attempt, callback B, hours later, by another process)
//
// What a Source sends as traceparent becomes a link of the publication's span, not its
// parent: a stranger decides neither what is sampled nor which trace it is in. URLs are
// told by their host; no header, body, secret, token or error text is in a span.
//
// Nothing waits for the collector. What it does not take is dropped, counted, and told by a
// line now and then. A nil *Tracer is one that is off: its methods return what they were
// given, so that nothing is paid for it.
package tracing
