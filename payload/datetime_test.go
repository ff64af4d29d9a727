package payload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/payload"
)

func TestNormalizeDatetime(t *testing.T) {
	for told, want := range map[string]string{
		"2026":                              "2026",
		"2026-02":                           "2026-02",
		"2024-02-29":                        "2024-02-29",
		"2026-01-02T03:04Z":                 "2026-01-02T03:04:00Z",
		"2026-01-02T03:04:05Z":              "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.100Z":          "2026-01-02T03:04:05.100Z",
		"2026-01-02T03:04:05.123456789012Z": "2026-01-02T03:04:05.123456789012Z",
		"2026-01-01T00:30:00+01:00":         "2025-12-31T23:30:00Z",
		"2026-12-31T23:30:00.5-05:30":       "2027-01-01T05:00:00.5Z",
		"2026-01-02T03:04:05-00:00":         "2026-01-02T03:04:05Z",
		"0000-01-01T00:00:00Z":              "0000-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z":              "9999-12-31T23:59:59Z",
	} {
		if got, err := payload.NormalizeDatetime(told); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", told, got, err, want)
		}
	}
}

func TestParseDatetime(t *testing.T) {
	for told, want := range map[string]time.Time{
		"2026":                              time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-02":                           time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		"2026-02-03":                        time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC),
		"2026-02-03T04:05+02:00":            time.Date(2026, 2, 3, 2, 5, 0, 0, time.UTC),
		"2026-02-03T04:05:06.5Z":            time.Date(2026, 2, 3, 4, 5, 6, 500_000_000, time.UTC),
		"2026-02-03T04:05:06.1234567899Z":   time.Date(2026, 2, 3, 4, 5, 6, 123_456_789, time.UTC),
		"2026-02-03T04:05:06.000001-01:00":  time.Date(2026, 2, 3, 5, 5, 6, 1000, time.UTC),
		"2026-02-03T04:05:06.00000000000Z":  time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		"1969-12-31T23:59:59.999999999Z":    time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		"2026-02-03T23:59:59.999999+00:00":  time.Date(2026, 2, 3, 23, 59, 59, 999_999_000, time.UTC),
		"2026-02-03T00:00:00.0000001+00:00": time.Date(2026, 2, 3, 0, 0, 0, 100, time.UTC),
	} {
		if got, err := payload.ParseDatetime(told); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", told, got, err, want)
		}
	}
}

func TestNoDatetime(t *testing.T) {
	for _, told := range []string{
		"", "yesterday", "26", "20260102", "2026-1-2", "2026-13", "2026-00", "2026-02-30", "2026-01-32",
		"2026-01-02T", "2026-01-02Z", "2026-01-02T03", "2026-01-02T03:04", "2026-01-02T03:04:05",
		"2026-01-02 03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T24:00:00Z", "2026-01-02T03:60:00Z",
		"2026-01-02T03:04:60Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05,1Z", "2026-01-02T03:04.5Z",
		"2026-01-02T03:04:05+0100", "2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05+24:00",
		"2026-01-02T03:04:05ZZ", " 2026", "2026 ", "+2026", "-001", "٢٠٢٦", "2026-01-02T03:04:05+01:00Z",
		"0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
	} {
		if got, err := payload.NormalizeDatetime(told); !errors.Is(err, payload.ErrDatetime) {
			t.Errorf("NormalizeDatetime(%q): got %q, %v", told, got, err)
		}
		if got, err := payload.ParseDatetime(told); !errors.Is(err, payload.ErrDatetime) {
			t.Errorf("ParseDatetime(%q): got %v, %v", told, got, err)
		}
	}
}

func TestFormatDatetime(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 30, 0, 1999, time.FixedZone("", 3600))
	if got, want := payload.FormatDatetime(at), "2025-12-31T23:30:00.000001Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Normalizing keeps the instant, and what is normal stays as it is.
func TestNormalizeDatetimeKeepsTheInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := drawTime(t).In(time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "offset")))
		told := at.Format("2006-01-02T15:04:05.999999999Z07:00")
		normal, err := payload.NormalizeDatetime(told)
		if err != nil || !strings.HasSuffix(normal, "Z") {
			t.Fatalf("%s: got %q, %v", told, normal, err)
		}
		if got, err := payload.ParseDatetime(normal); err != nil || !got.Equal(at) {
			t.Errorf("%s: normal form %s is %v, %v", told, normal, got, err)
		}
		if again, _ := payload.NormalizeDatetime(normal); again != normal {
			t.Errorf("%s became %s", normal, again)
		}
	})
}

func drawTime(t *rapid.T) time.Time {
	const year1902, year2200 = -2145916800, 7258118400
	seconds := rapid.Int64Range(year1902, year2200).Draw(t, "seconds")
	return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
}

func FuzzNormalizeDatetime(f *testing.F) {
	for _, seed := range []string{
		"2026", "2026-02", "2026-02-03", "2026-02-03T04:05Z", "2026-02-03T04:05:06.7+08:00",
		"2026-02-30", "0000-01-01T00:00:00+01:00", "2026-02-03T04:05:06.", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, told string) {
		normal, err := payload.NormalizeDatetime(told)
		at, errParse := payload.ParseDatetime(told)
		if (err == nil) != (errParse == nil) {
			t.Fatalf("normalizing: %v, parsing: %v", err, errParse)
		}
		if err != nil {
			return
		}
		again, err := payload.ParseDatetime(normal)
		if err != nil || !again.Equal(at) {
			t.Errorf("%q is %v, its normal form %q is %v, %v", told, at, normal, again, err)
		}
		if strings.Contains(told, "T") {
			if std, err := time.Parse(time.RFC3339Nano, normal); err != nil || !std.Equal(at) {
				t.Errorf("package time reads %q as %v, %v", normal, std, err)
			}
		}
	})
}
