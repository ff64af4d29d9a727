package mirror

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// smallShare is what a Share in percent comes to at least: of few, half are soon reached.
const smallShare = 10

// Share is how many of something: a number, or so many percent of them.
type Share struct{ Number, Percent int }

// Of is how many that are of so many.
func (s Share) Of(all int) int {
	if s.Percent == 0 {
		return s.Number
	}
	return max(int(int64(all)*int64(s.Percent)/100), smallShare)
}

// String is the share as it could be given.
func (s Share) String() string {
	if s.Percent > 0 {
		return strconv.Itoa(s.Percent) + "%"
	}
	return strconv.Itoa(s.Number)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	most := math.MaxInt32
	if percent {
		most = 100
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%q is neither a number of 1 or more nor a share of 1%% to 100%%", text)
	}
	if *s = (Share{Number: n}); percent {
		*s = Share{Percent: n}
	}
	return nil
}
