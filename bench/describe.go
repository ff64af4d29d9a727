package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// describe says on what the figures were made, and by which command.
func (e *env) describe(o options) {
	if e.report.markdown {
		fmt.Fprint(e.report.w, "# What was measured\n\nThis file is what the program in this directory printed. "+
			"Absolute figures depend on the machine and the moment; quote the ratios.\n\n")
	}
	command := "go run ./bench"
	for _, given := range []struct{ flag, value string }{{"only", o.only}, {"engines", o.engines}} {
		if given.value != "" {
			command += " -" + given.flag + " " + given.value
		}
	}
	if o.quick {
		command += " -quick"
	}
	if o.markdown {
		command += " -markdown"
	}
	e.report.note("    %s", command)
	rows := [][]string{
		{"machine", fmt.Sprintf("%s/%s, %d processors, %s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), memory())},
		{"kernel", firstLine("/proc/sys/kernel/osrelease")},
		{"Go", runtime.Version()},
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		rows = append(rows, []string{"Redis", redisVersion(string(out)) + ", appendonly yes, appendfsync always"})
	}
	rows = append(rows, []string{"hub", "default flags and environment but for listeners, --url and --store; sink, publisher and hub share the processors"})
	e.report.table([]string{"", ""}, rows)
	if o.quick {
		e.report.note("THESE ARE THE SMALL NUMBERS OF -quick: THEY MEAN NOTHING.")
	}
}

// redisVersion is the number in what redis-server says of itself.
func redisVersion(text string) string {
	for word := range strings.FieldsSeq(text) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return version
		}
	}
	return "version unknown"
}

// firstLine is that of a file, where there is one.
func firstLine(name string) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

func processor() string { return field("/proc/cpuinfo", "model name", "processor unknown") }

func memory() string { return field("/proc/meminfo", "MemTotal", "memory unknown") }

// field is the value of a line "name : value" of a file.
func field(file, name, otherwise string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}
