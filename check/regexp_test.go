package check_test

import "regexp"

// regexpURLs are the entries of a document.
var regexpURLs = regexp.MustCompile(`(?s)\s*<url>.*</url>`)

// regexpTimes are what entries say of times.
var regexpTimes = regexp.MustCompile(`\s*<rs:md from=[^>]*>`)
