package page

import "carillon/operator"

// For the tests of what templates are given.
var (
	Number   = number
	Size     = size
	Took     = took
	Long     = long
	Relative = relative
	Ranges   = shardRanges
	Letter   = letter
	Web      = web
)

const (
	MaxStreams = maxStreams
)

// Answer is the sentence that answers whether all have got a notification.
func Answer(t operator.Tally, missing int) string {
	a := verdictOf(t, missing)
	return a.Word + " " + a.Text
}

// Charts are the paths of a series' charts, and their texts.
func Charts(steps []operator.Step) (paths, texts []string) {
	for _, c := range newOverview(operator.Overview{Series: steps}).Charts {
		for _, l := range c.Lines {
			paths = append(paths, l.Path+l.Area)
		}
		texts = append(texts, c.Text+c.Empty)
	}
	return paths, texts
}
