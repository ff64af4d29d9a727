package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report writes what was measured, as plain text or as Markdown, and gathers the
// figures that have a goal for the table at its end.
type report struct {
	w        io.Writer
	markdown bool
	engines  []engine
	figures  []*figure
}

// engine is one of the two that a hub keeps its state in.
type engine string

const (
	noEngine engine = ""
	onPebble engine = "pebble"
	onRedis  engine = "redis"
)

func (e engine) String() string {
	if e == onRedis {
		return "Redis"
	}
	return "Pebble"
}

// figure is one line of the table at the end.
type figure struct {
	goal
	values map[engine]float64
}

// goal is what a figure should be.
type goal struct {
	name  string
	limit float64
	least bool   // limit is the least that it should be; otherwise the most
	unit  string // after the number
}

func atLeast(limit float64, name, unit string) goal { return goal{name, limit, true, unit} }
func atMost(limit float64, name, unit string) goal  { return goal{name, limit, false, unit} }

func (g goal) met(value float64) bool {
	if g.least {
		return value >= g.limit
	}
	return value <= g.limit
}

func (g goal) String() string {
	sign := "≤"
	if g.least {
		sign = "≥"
	}
	return fmt.Sprintf("%s %.4g%s", sign, g.limit, g.unit)
}

// put takes down a figure. noEngine is for those that have none.
func (r *report) put(g goal, e engine, value float64) {
	for _, f := range r.figures {
		if f.name == g.name {
			f.values[e] = value
			return
		}
	}
	r.figures = append(r.figures, &figure{g, map[engine]float64{e: value}})
}

func (r *report) section(title string) {
	if r.markdown {
		fmt.Fprintf(r.w, "\n## %s\n\n", title)
		return
	}
	fmt.Fprintf(r.w, "\n%s\n%s\n", title, strings.Repeat("=", len(title)))
}

// note writes a paragraph.
func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.w, format+"\n", args...)
	if r.markdown {
		fmt.Fprintln(r.w)
	}
}

// cells are a row or the head of a table. The text has "|" between them.
func cells(format string, args ...any) []string {
	return strings.Split(fmt.Sprintf(format, args...), "|")
}

// table writes a table; rows may be shorter than the head.
func (r *report) table(head []string, rows [][]string) {
	for i, row := range rows {
		rows[i] = append(row, make([]string, len(head)-len(row))...)
	}
	if r.markdown {
		fmt.Fprintf(r.w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, row := range rows {
			fmt.Fprintf(r.w, "| %s |\n", strings.Join(row, " | "))
		}
		fmt.Fprintln(r.w)
		return
	}
	tw := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush()
}

// summary writes the table of all figures that have a goal.
func (r *report) summary() {
	if len(r.figures) == 0 {
		return
	}
	r.section("Summary")
	head := []string{"figure", "goal"}
	for _, e := range r.engines {
		head = append(head, e.String())
	}
	var rows [][]string
	for _, f := range r.figures {
		rows = append(rows, f.line(r.engines))
	}
	r.table(append(head, "met?"), rows)
}

func (f *figure) line(engines []engine) []string {
	row, met := []string{f.name, f.String()}, []string{}
	if value, general := f.values[noEngine]; general {
		for range engines {
			row = append(row, f.number(value))
		}
		return append(row, f.verdict(value))
	}
	for _, e := range engines {
		value, ok := f.values[e]
		if !ok {
			row, met = append(row, "not measured"), append(met, "?")
			continue
		}
		row, met = append(row, f.number(value)), append(met, f.verdict(value))
	}
	return append(row, strings.Join(met, ", "))
}

func (g goal) number(value float64) string { return fmt.Sprintf("%.4g%s", value, g.unit) }

func (g goal) verdict(value float64) string {
	if g.met(value) {
		return "yes"
	}
	return "no"
}
