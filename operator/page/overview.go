package page

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"carillon/operator"
	"carillon/operator/api"
	"carillon/subscription"
)

// overview is the hub at a glance.
type overview struct {
	operator.Overview
	Charts   []chart
	Failures []failure
	Failed   int // attempts, in all of the series
	Minutes  []minute
	Shards   []shard
	New      bool // the hub has no subscriptions and no publications yet
	Level    string
	Levels   []string
}

// failure is what failed in one way over the series.
type failure struct {
	Class string
	Count int
	Spark string
}

// minute is one row of the charts' numbers.
type minute struct {
	At                           time.Time
	Published, Delivered, Failed int
	Behind                       int
	P50, P99                     float64
}

// shard is one square of the map.
type shard struct {
	Number int
	Owner  int // the place of the process in the list; -1: no process answered for it
}

// newOverview makes of the Desk's answer what is drawn.
func newOverview(o operator.Overview) overview {
	steps := coarse(o.Series)
	v := overview{Overview: o, Minutes: minutesOf(o.Series), Shards: shardsOf(o.Processes)}
	v.Failures, v.Failed = failuresOf(steps)
	v.Charts = chartsOf(steps)
	v.New = o.Counts.Topics == 0 && o.Counts.Subscriptions == 0
	return v
}

func rate(v float64) string { return short(v) }

// chartsOf draws the series.
func chartsOf(steps []operator.Step) []chart {
	charts := []chart{
		{ID: "delivered", Title: "Deliveries per second"},
		{ID: "published", Title: "Publications per second"},
		{ID: "failed", Title: "Failed attempts per second"},
		{ID: "behind", Title: "Subscriptions behind"},
		{ID: "latency", Title: "Time that attempts take"},
	}
	if len(steps) < 2 {
		for i := range charts {
			charts[i].Empty = "The first numbers come in a few seconds."
		}
		return charts
	}
	charts[0] = rateChart(charts[0], steps, rates("good", "", steps, func(s operator.Step) int { return s.Delivered }))
	charts[1] = rateChart(charts[1], steps, rates("calm", "", steps, func(s operator.Step) int { return s.Published }))
	charts[2] = rateChart(charts[2], steps, rates("bad", "", steps, failedIn))
	charts[3] = behindChart(charts[3], steps)
	charts[4] = latencyChart(charts[4], steps)
	return charts
}

func failedIn(s operator.Step) (n int) {
	for _, of := range s.Failed {
		n += of
	}
	return n
}

func rateChart(c chart, steps []operator.Step, v values) chart {
	most, sum := 0.0, 0.0
	for _, x := range v.at {
		most, sum = max(most, x), sum+x
	}
	c.Now, c.Note = rate(v.at[len(v.at)-1]), "at most "+rate(most)
	c.Text = fmt.Sprintf(
		"%s over the last ten minutes: %s now, %s at most, %s on average.", c.Title, c.Now,
		rate(most), rate(sum/float64(len(v.at))),
	)
	return plot(c, steps, []values{v}, linear([]values{v}, 1, rate))
}

func behindChart(c chart, steps []operator.Step) chart {
	v := levels("warm", "", steps, func(s operator.Step) float64 { return float64(s.Behind) }, nil)
	most := slices.Max(v.at)
	c.Now, c.Note = rate(v.at[len(v.at)-1]), "at most "+rate(most)
	c.Text = fmt.Sprintf(
		"Subscriptions that have something to get, over the last ten minutes: %s now, %s at most.", c.Now, rate(most),
	)
	return plot(c, steps, []values{v}, linear([]values{v}, 2, rate))
}

func latencyChart(c chart, steps []operator.Step) chart {
	none := func(s operator.Step) bool { return s.P99 == 0 }
	all := []values{
		levels("p50", "median", steps, func(s operator.Step) float64 { return s.P50 }, none),
		levels("p90", "90 %", steps, func(s operator.Step) float64 { return s.P90 }, none),
		levels("p99", "99 %", steps, func(s operator.Step) float64 { return s.P99 }, none),
	}
	lastOf := func(v values) float64 {
		for _, x := range slices.Backward(v.at) {
			if !math.IsNaN(x) {
				return x
			}
		}
		return math.NaN()
	}
	if math.IsNaN(lastOf(all[0])) {
		c.Empty = "No attempt in the last ten minutes."
		return c
	}
	c.Now, c.Note = took(lastOf(all[0])), "median; 99 % within "+took(lastOf(all[2]))
	c.Text = fmt.Sprintf("Time that delivery attempts take, on a logarithmic scale, at last: half within %s, 90 %% within %s, 99 %% within %s.",
		took(lastOf(all[0])), took(lastOf(all[1])), took(lastOf(all[2])))
	return plot(c, steps, all, logarithmic(all))
}

// failuresOf adds the failures up by class, the most frequent first.
func failuresOf(steps []operator.Step) (all []failure, total int) {
	counts := map[string][]float64{}
	for i, s := range steps {
		for class, n := range s.Failed {
			if counts[class] == nil {
				counts[class] = make([]float64, len(steps))
			}
			counts[class][i] += float64(n)
		}
	}
	for class, at := range counts {
		f := failure{Class: class, Spark: spark(at)}
		for _, n := range at {
			f.Count += int(n)
		}
		total += f.Count
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Class, b.Class))
	})
	return all, total
}

// minutesOf puts the series together by whole minutes, the newest first.
func minutesOf(steps []operator.Step) (all []minute) {
	for _, s := range slices.Backward(steps) {
		at := s.At.Add(-time.Nanosecond).Truncate(time.Minute)
		if len(all) == 0 || !all[len(all)-1].At.Equal(at) {
			all = append(all, minute{At: at, Behind: s.Behind})
		}
		m := &all[len(all)-1]
		m.Published += s.Published
		m.Delivered += s.Delivered
		m.Failed += failedIn(s)
		m.P50, m.P99 = max(m.P50, s.P50), max(m.P99, s.P99)
	}
	return all
}

// shardsOf is the map of who has which shard.
func shardsOf(processes []operator.Process) []shard {
	all := make([]shard, subscription.Shards)
	for i := range all {
		all[i] = shard{i, -1}
	}
	for i, p := range processes {
		for _, s := range p.Shards {
			if s >= 0 && s < len(all) {
				all[s].Owner = i
			}
		}
	}
	return all
}

// hubPages show how the hub is doing, what a topic's subscribers hear and what a check finds.
type hubPages struct {
	*renderer
	desk   api.HubService
	latest api.Latest
}

func (p *hubPages) overview(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := ask(r)
	defer cancel()
	o, err := p.desk.Overview(ctx)
	if err != nil {
		return err
	}
	v := newOverview(o)
	if p.cfg.Level != nil {
		v.Level, v.Levels = p.cfg.Level.Get(), []string{"debug", "info", "warn", "error"}
	}
	p.show(w, r, "overview", sheet{Title: "Overview", Here: "overview", Body: v})
	return nil
}

// live sends the parts of the overview that change, until the client goes.
func (p *hubPages) live(w http.ResponseWriter, r *http.Request) error {
	s, err := p.open(w, r)
	if err != nil {
		return err
	}
	defer s.close()
	next, beat := time.NewTicker(p.cfg.Every), time.NewTicker(api.BeatEvery)
	defer next.Stop()
	defer beat.Stop()
	for {
		var err error
		select {
		case <-s.ctx.Done():
			return nil
		case <-p.cfg.Stopping:
			return nil
		case <-beat.C:
			err = s.Beat()
		case <-next.C:
			err = s.Send("", p.liveOverview(r))
		}
		if err != nil {
			return nil // the client is gone
		}
	}
}

// liveOverview is the changing parts, or what is wrong in their place.
func (p *hubPages) liveOverview(r *http.Request) []byte {
	o, err := p.latest.Ask(r.Context(), p.desk, p.cfg.Every/2, askWithin)
	if err != nil {
		return p.part("overview", "live-error", p.errorPageFor(r, err))
	}
	return p.part("overview", "live", newOverview(o))
}

// logLevel sets the level of this process's log lines.
func (p *hubPages) logLevel(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost || p.cfg.Level == nil {
		return see(w, r, "/")
	}
	if err := readForm(r); err != nil {
		return err
	}
	level := r.PostForm.Get("level")
	if err := p.cfg.Level.Set(level); err != nil {
		return fmt.Errorf("%w: %w", operator.ErrInvalid, err)
	}
	p.cfg.Logger.Warn("an operator has set the log level", "level", level)
	return see(w, r, done("/", "level"))
}
