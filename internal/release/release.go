// Package release knows the version that all parts of Carillon have in common.
package release

// Version is the version of every command and of the library, as --version and User-Agent show it.
const Version = "0.1.0"
