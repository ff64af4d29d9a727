package page

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/operator"
	"carillon/subscription"
)

// functions are what templates write numbers, times and addresses with.
var functions = template.FuncMap{
	"num": number, "bytes": size, "took": took, "long": long, "rel": relative,
	"utc": utc, "clock": clock, "iso": iso, "seconds": seconds, "web": web,
	"class": classText, "state": stateText, "tallyEnd": tallyEnd, "missed": outcomeText,
	"plural": plural, "letter": letter, "shards": shardRanges,
	"hue": func(i int) int { return i%hues + 1 }, "source": sourcePath,
	"check": func(place string) string { return checkPath(place) }, "checks": func(places []string) string { return checkPath(places...) },
	"soon": soon, "underWay": underWay, "short": shortID, "process": processName,
}

// hues is how many colors there are for processes.
const hues = 6

// thin parts the digits of a number by threes (U+202F).
const thin = "\u202f"

// number writes a whole number of any type.
func number(n any) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "−", digits[1:]
	}
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return sign + strings.Join(parts, thin)
}

// plural is a number with the word for it: 1 topic, 2 topics.
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + more
}

// size writes bytes with three digits or so.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n), []string{"B", "kB", "MB", "GB", "TB", "PB"}
	at := 0
	for value >= 999.5 && at < len(units)-1 {
		value, at = value/1000, at+1
	}
	return short(value) + " " + units[at]
}

// short writes a number that is not negative with three digits or so.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case v < 10:
		return strings.TrimSuffix(strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".0")
	case v < 100:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return number(int64(math.Round(v)))
}

// took writes how long something took, of seconds.
func took(s float64) string {
	switch {
	case s <= 0:
		return "0 ms"
	case s < 0.0995:
		return short(s*1000) + " ms"
	case s < 0.9995:
		return strconv.FormatFloat(s*1000, 'f', 0, 64) + " ms"
	case s < 120:
		return short(s) + " s"
	}
	return long(time.Duration(s * float64(time.Second)))
}

// seconds makes a time.Duration of seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// long writes a duration in its one or two largest units.
func long(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func two(a int, unitA string, b int, unitB string) string {
	if b == 0 || a > 9 {
		return fmt.Sprintf("%d %s", a, unitA)
	}
	return fmt.Sprintf("%d %s %d %s", a, unitA, b, unitB)
}

// relative formats a time by its distance from now. static/page.js does the same.
func relative(t time.Time) string {
	d := time.Since(t)
	switch {
	case d >= time.Second:
		return long(d) + " ago"
	case d <= -time.Second:
		return "in " + long(-d)
	}
	return "now"
}

// soon is relative for the future: a due time is now.
func soon(t time.Time) string {
	if time.Until(t) <= 0 {
		return "now"
	}
	return relative(t)
}

// underWay reports whether an attempt is made for a subscription of that state at this moment.
func underWay(state string) bool { return state == operator.StateInFlight }

// shortID is the beginning of an ID, by which people tell the rows of a list apart.
func shortID(id subscription.ID) string { return id.String()[:8] }

// processName is the name of a process, or "" for one that is alone.
func processName(id string) string {
	if id == operator.Alone {
		return ""
	}
	return id
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clock is the time of day, with the date where it is not of this day.
func clock(t time.Time) string {
	if now := time.Now().UTC(); now.Format(time.DateOnly) == t.UTC().Format(time.DateOnly) {
		return t.UTC().Format("15:04:05 UTC")
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// web returns an address that a link may lead to: only one of http or https, and else
// nothing.
func web(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return address
}

// tallyEnd is where a part of a notification's bar ends, in hundredths: 1 is those who
// have got it, 2 is those and who are still to get it. Where there are any in a part it is
// seen, however few they are.
func tallyEnd(t operator.Tally, part int) string {
	least := func(n int) float64 {
		if n <= 0 || t.Subscribers <= 0 {
			return 0
		}
		return max(1, 100*float64(n)/float64(t.Subscribers))
	}
	end := 100 - least(t.GivenUp+t.Trimmed)
	if part == 1 {
		end -= least(t.Pending)
	}
	return strconv.FormatFloat(max(end, 0), 'f', 2, 64)
}

// classTexts say what classes of outcomes mean (delivery.Class).
var classTexts = map[string]string{
	"delivered": "delivered", "gone": "gone (410): it wants no more", "redirect": "redirect (3xx), which is not followed",
	"client_error": "refused by the callback (4xx)", "server_error": "error of the callback (5xx)",
	"timeout": "no answer in time", "refused": "no connection, or it broke", "dns": "its name does not resolve",
	"tls": "TLS handshake or certificate", "forbidden": "an address that may not be dialed", "protocol": "its answer is not HTTP",
	"none": "no attempt was made",
}

func classText(class string) string {
	if text, ok := classTexts[class]; ok {
		return text
	}
	return class
}

func stateText(state string) string { return strings.ReplaceAll(state, "_", " ") }

// outcomeText states why a subscription lacks a notification.
func outcomeText(outcome string) string {
	switch outcome {
	case "pending":
		return "to be delivered"
	case "failing":
		return "failing, tried again"
	case "given_up":
		return "given up"
	case "trimmed":
		return "trimmed from the log before"
	}
	return outcome
}

// letter names the process with that place in the list, A to Z and on.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + string(rune('A'+i%26))
}

// shardRanges writes shards as 0–20, 42.
func shardRanges(shards []int) string {
	if len(shards) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(shards))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] <= sorted[j]+1 {
			j++
		}
		if sorted[i] == sorted[j] {
			parts = append(parts, strconv.Itoa(sorted[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
