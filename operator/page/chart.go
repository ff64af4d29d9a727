package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"carillon/operator"
)

// The drawing of a chart, in units of its viewBox: the plot is what axes leave.
const (
	chartWidth, chartHeight = 340.0, 150.0
	plotLeft, plotRight     = 42.0, 330.0
	plotTop, plotBottom     = 10.0, 128.0
)

const (
	// chartSpan is what a chart shows.
	chartSpan = 10 * time.Minute
	// maxPoints is how many steps a chart has; finer ones are put together.
	maxPoints = 60
)

// chart is a line chart over the last ten minutes.
type chart struct {
	ID    string // of its element
	Title string
	Now   string // the latest value, large
	Note  string // beside it
	Text  string // all of it in words
	Lines []line
	Ticks []tick // of values
	Times []tick
	Hover []hover
	Empty string // what to say where there is nothing to draw; "": there is
}

// line is one of its lines. Names are shown where there are several.
type line struct{ Class, Name, Last, Path, Area string }

// tick is a mark of an axis, with its place.
type tick struct {
	At    string
	Label string
}

// hover is a stretch of the chart that shows its values.
type hover struct{ X, Width, Text string }

// values is one line's numbers, of the same length as the steps; NaN: a missing one.
type values struct {
	class, name string
	at          []float64
}

// scale maps values to the plot.
type scale struct {
	low, high float64
	log       bool
	ticks     []float64
	label     func(float64) string
}

func (s scale) y(v float64) float64 {
	part := 0.0
	if s.log {
		part = math.Log(max(v, s.low)/s.low) / math.Log(s.high/s.low)
	} else if s.high > 0 {
		part = v / s.high
	}
	return plotBottom - min(max(part, 0), 1)*(plotBottom-plotTop)
}

// linear is a scale from 0 with round marks, which reaches the largest value.
func linear(all []values, least float64, label func(float64) string) scale {
	most := least
	for _, v := range all {
		for _, x := range v.at {
			if x > most { // false for NaN
				most = x
			}
		}
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/2)))
	for _, times := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10} {
		if unit*times*2 >= most {
			unit *= times
			break
		}
	}
	return scale{high: 2 * unit, ticks: []float64{0, unit, 2 * unit}, label: label}
}

// logarithmic is a scale of powers of ten for times in seconds: from a millisecond, or from the power
// below the least, down to ten microseconds.
func logarithmic(all []values) scale {
	s := scale{low: 0.001, high: 0.1, log: true, label: took}
	for _, v := range all {
		for _, x := range v.at {
			for x > s.high {
				s.high *= 10
			}
			for x > 0 && x < s.low && s.low > 0.00002 {
				s.low /= 10
			}
		}
	}
	for t := s.low; t <= s.high*1.001; t *= 10 {
		s.ticks = append(s.ticks, t)
	}
	return s
}

// plot draws lines over steps.
func plot(c chart, steps []operator.Step, all []values, s scale) chart {
	last := steps[len(steps)-1].At
	x := func(t time.Time) float64 {
		part := 1 - float64(last.Sub(t))/float64(chartSpan)
		return plotLeft + min(max(part, 0), 1)*(plotRight-plotLeft)
	}
	for _, v := range all {
		c.Lines = append(c.Lines, drawLine(v, steps, x, s, len(all) == 1))
	}
	for _, t := range s.ticks {
		c.Ticks = append(c.Ticks, tick{unit(s.y(t)), s.label(t)})
	}
	for minutes := 10; minutes >= 0; minutes -= 5 {
		label := "now"
		if minutes > 0 {
			label = fmt.Sprintf("−%d min", minutes)
		}
		c.Times = append(c.Times, tick{unit(x(last.Add(-time.Duration(minutes) * time.Minute))), label})
	}
	for i, step := range steps {
		from := x(step.At.Add(-seconds(step.Seconds)))
		c.Hover = append(c.Hover, hover{unit(from), unit(max(x(step.At)-from, 0.5)), hoverText(step, all, i, s)})
	}
	return c
}

func hoverText(step operator.Step, all []values, i int, s scale) string {
	parts := []string{step.At.UTC().Format("15:04:05 UTC")}
	for _, v := range all {
		if !math.IsNaN(v.at[i]) {
			parts = append(parts, strings.TrimSpace(v.name+" "+s.label(v.at[i])))
		}
	}
	return strings.Join(parts, " · ")
}

// drawLine draws one line. It is broken where there are no values.
func drawLine(v values, steps []operator.Step, x func(time.Time) float64, s scale, area bool) line {
	l := line{Class: v.class, Name: v.name}
	var path, fill strings.Builder
	begun := ""
	end := func(at string) {
		if begun != "" && area {
			fmt.Fprintf(&fill, "L%s %sL%s %sZ", at, unit(plotBottom), begun, unit(plotBottom))
		}
		begun = ""
	}
	before := ""
	for i, value := range v.at {
		if math.IsNaN(value) {
			end(before)
			continue
		}
		l.Last = s.label(value)
		at, y := unit(x(steps[i].At)), unit(s.y(value))
		move := "L"
		if begun == "" {
			move, begun = "M", at
		}
		path.WriteString(move + at + " " + y)
		fill.WriteString(move + at + " " + y)
		before = at
	}
	end(before)
	l.Path = path.String()
	if area {
		l.Area = fill.String()
	}
	return l
}

// unit writes a coordinate.
func unit(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// spark is the path of a small line without axes, in a box of 100 by 20.
func spark(at []float64) string {
	most := 0.0
	for _, v := range at {
		most = max(most, v)
	}
	if most == 0 || len(at) < 2 {
		return "M0 19L100 19"
	}
	var path strings.Builder
	for i, v := range at {
		move := "L"
		if i == 0 {
			move = "M"
		}
		path.WriteString(move + unit(100*float64(i)/float64(len(at)-1)) + " " + unit(19-18*v/most))
	}
	return path.String()
}

// rates are numbers per second of a step.
func rates(class, name string, steps []operator.Step, of func(operator.Step) int) values {
	v := values{class: class, name: name}
	for _, s := range steps {
		v.at = append(v.at, float64(of(s))/max(s.Seconds, 0.001))
	}
	return v
}

// levels are plain numbers; missing reports the steps without one.
func levels(
	class, name string, steps []operator.Step, of func(operator.Step) float64, missing func(operator.Step) bool,
) values {
	v := values{class: class, name: name}
	for _, s := range steps {
		if missing != nil && missing(s) {
			v.at = append(v.at, math.NaN())
			continue
		}
		v.at = append(v.at, of(s))
	}
	return v
}

// coarse puts steps together until there are maxPoints at most. Of percentiles it keeps
// the worst, since they cannot be added.
func coarse(steps []operator.Step) []operator.Step {
	each := (len(steps) + maxPoints - 1) / maxPoints
	if each <= 1 {
		return steps
	}
	var all []operator.Step
	for i, s := range steps {
		if i%each == 0 {
			all = append(all, operator.Step{Failed: map[string]int{}})
		}
		sum := &all[len(all)-1]
		sum.At, sum.Seconds, sum.Behind = s.At, sum.Seconds+s.Seconds, s.Behind
		sum.Published += s.Published
		sum.Delivered += s.Delivered
		for class, n := range s.Failed {
			sum.Failed[class] += n
		}
		sum.P50, sum.P90, sum.P99 = max(sum.P50, s.P50), max(sum.P90, s.P90), max(sum.P99, s.P99)
	}
	return all
}
