package retain

import "carillon/delivery"

// WaterLevel is what each log may take where all have a bound together.
var WaterLevel = waterLevel

// Loss is a loss without a log line yet.
type Loss = loss

// MaxLossTopics bounds the topics that a Loss remembers.
const MaxLossTopics = maxLossTopics

// Add adds what went from the log of a topic.
func (l *loss) Add(topic string, went delivery.Trimmed) { l.add(topic, went) }

// Kept is how many topics are remembered.
func (l *loss) Kept() int { return len(l.byTopic) }

// Summary returns how many topics a line names, and which lost most.
func (l *loss) Summary() (topics int, worst string) { return l.topics(), l.worst()[0] }
