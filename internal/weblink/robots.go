package weblink

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

const (
	// maxRobots is how much of a robots.txt is read, bytes.
	maxRobots = 500 << 10
	// maxSitemaps is how many sitemaps of it are returned.
	maxSitemaps = 100
)

// Sitemap is a Sitemap line of a robots.txt.
type Sitemap struct {
	URI  string // as written, without the white space around it; it may be empty
	Line int    // from 1 on
}

// Sitemaps reads the Sitemap lines of a robots.txt (core §6.3.4): at most 100, of its first
// 500 KiB. The error is that of the reader.
func Sitemaps(robots io.Reader) (all []Sitemap, err error) {
	lines := bufio.NewScanner(io.LimitReader(robots, maxRobots))
	for n := 1; lines.Scan() && len(all) < maxSitemaps; n++ {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), ":")
		if value, _, _ = strings.Cut(value, " #"); strings.EqualFold(strings.TrimSpace(name), "sitemap") {
			all = append(all, Sitemap{strings.TrimSpace(value), n})
		}
	}
	if err = lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		err = nil // no Sitemap line is as long
	}
	return all, err
}
