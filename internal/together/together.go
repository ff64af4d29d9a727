// Package together is for tests that wait for processes and for timers, and need little of a
// processor.
package together

import (
	"flag"
	"runtime"
	"strconv"
)

// Wait lets more tests run at a time than there are processors, unless -parallel was given. It is
// called by TestMain, before the tests run.
func Wait() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(perProcessor*runtime.GOMAXPROCS(0)))
	}
}
