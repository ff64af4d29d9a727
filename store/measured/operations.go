package measured

// operation is one method of an engine's interfaces.
type operation int

const (
	logAppend operation = iota
	logRead
	logHeads
	logTrim
	logShrink
	logKeys
	logTopics
	logSummaries
	logSummary
	logState
	pingsPing
	pingsFetched
	pingsWaiting
	cursorsMembers
	cursorsSave
	cursorsGaps
	cursorsGapped
	marksMark
	marksLowest
	requestsSubmit
	requestsKeepStart
	requestsRequests
	requestsRequest
	requestsActivate
	requestsDrop
	requestsUnsubscribe
	requestsRemove
	requestsGet
	requestsExpired
	sourcesAdd
	sourcesReplace
	sourcesDelete
	sourcesGet
	sourcesList
	operations
)

// operationLabels are the interface and its method, as metrics show them.
var operationLabels = [operations]string{
	"log_append", "log_read", "log_heads", "log_trim", "log_shrink", "log_keys", "log_topics", "log_summaries", "log_summary", "log_state",
	"pings_ping", "pings_fetched", "pings_waiting",
	"cursors_members", "cursors_save", "cursors_gaps", "cursors_gapped",
	"marks_mark", "marks_lowest",
	"subscriptions_submit", "subscriptions_keepstart", "subscriptions_requests", "subscriptions_request", "subscriptions_activate", "subscriptions_drop",
	"subscriptions_unsubscribe", "subscriptions_remove", "subscriptions_get", "subscriptions_expired",
	"sources_add", "sources_replace", "sources_delete", "sources_get", "sources_list",
}

func (op operation) String() string { return operationLabels[op] }
