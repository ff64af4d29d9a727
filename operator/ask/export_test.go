package ask

// The output, for tests of its form.
var (
	Table, Row, Short, Size, Moment = table, row, short, size, moment
	Quoted, Query                   = quoted, query
	PrintJSON, TellCoverage         = printJSON, printCoverage
	PrintSubscription               = printSubscription
	PrintNotification               = printNotification
)

// Span is a number of seconds for people.
func Span(s float64) string { return span(seconds(s)) }

// Sure asks whether it is meant.
func Sure(yes bool, call Call, what string) error { return (&sureFlags{Yes: yes}).sure(call, what) }
