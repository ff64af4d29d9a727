package program

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes, as an operator writes it: 1000000, 1MB, 1.5GiB.
type ByteSize int64

// Units of a ByteSize, longer ones before those that they end in.
var byteUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// String is the size as it could be given, by the largest unit that it is a whole number
// of.
func (b ByteSize) String() string {
	name, unit := "", int64(1)
	for _, u := range byteUnits {
		if size := int64(u.bytes); size > unit && int64(b)%size == 0 && b != 0 {
			name, unit = u.name, size
		}
	}
	return strconv.FormatInt(int64(b)/unit, 10) + name
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *ByteSize) UnmarshalText(text []byte) error {
	number, unit := string(text), 1.0
	for _, u := range byteUnits {
		if rest, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if size := n * unit; err == nil && size >= 0 && size < math.MaxInt64 && size == math.Trunc(size) {
		*b = ByteSize(size)
		return nil
	}
	if err == nil && n < 0 {
		return fmt.Errorf("%q is negative: a number of bytes is 0 or more, like 500MB or 10GiB", text)
	}
	return fmt.Errorf("%q is not a number of bytes, like 1000000, 500MB or 10GiB", text)
}
