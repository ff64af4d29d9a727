// Package tracing makes OpenTelemetry traces of a hub's work, and sends them to the collector that its
// operator names (OTLP over HTTP, by the standard variables).
//
// One trace holds a publication and every attempt to deliver it, also those after a restart and those
// of other processes. Nothing more is stored for that, and no process informs another: the trace's ID,
// and that of the span of the publication, are made from the notification's ID (idsOf). So does the
// trace of a subscription request hold every verification of it.
//
//	publish ──┬── log append
//	          ├── deliver (1st attempt, callback A)
//	          ├── deliver (1st attempt, callback B: failed)
//	          └── deliver (2nd attempt, callback B, hours later, by another process)
//
// A Source's traceparent becomes a link of the publication's span, not its parent: a stranger decides
// neither about sampling nor about the trace. Spans have only the host of a URL; no header, body,
// secret, token or error text is in a span.
//
// Nothing waits for the collector. Spans that it does not take are dropped, counted, and logged by a
// line now and then. A nil *Tracer is one that is off: its methods return their arguments, so that it
// costs nothing.
package tracing
