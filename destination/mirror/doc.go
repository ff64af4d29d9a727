// Package mirror keeps copies of a Source's resources in a directory: it takes the
// changes that are followed, fetches what was created or updated, and brings the whole
// directory in step with what the Source's lists say.
//
//	changes ──▶ Take ─────┐
//	lists ────▶ Baseline ─┤    ┌─▶ fetch ─▶ temporary file ─▶ verified ─▶ renamed ─┐
//	Catalog ──▶ Run, ─────┴──▶ jobs, in parallel, one at a time for a resource     ├─▶ Catalog
//	  ▲         Settle         └─▶ removed, or kept and recorded ──────────────────┘      │
//	  └──────────────────────── what failed is due again ◀────────────────────────────────┘
//
// What it guarantees: a file is replaced by one that is whole, of the length and every
// hash of a known algorithm that the Source told, or stays as it was; nothing is written outside
// the directory, whatever a loc says; no two resources share a file, on file systems
// either that do not tell case or the forms of Unicode; what failed is recorded with its reason and tried
// again, for ever; a deletion is carried out or recorded, never passed over, and what is merely not listed is
// deleted up to a bound, and only if the list is whole. What
// the Catalog says is written after the file is there: after a crash some files may be
// fetched again.
//
// What it does not: without Config.Sync a power failure may leave a file that is not
// whole, which Audit finds. A mirror is not made for a set whose parts must change together:
// each file is replaced by itself.
//
// # Paths
//
// A resource's copy is at HOST/PATH under the directory, HOST+PORT where its port is not
// the scheme's. Names are decoded, so that My%20file is "My file"; what a file system
// or a shell would take otherwise stays encoded: a slash, a backslash, a percent sign, < > : " | ? *,
// controls and what is not graphic, a leading dot (names with one are this package's own,
// and a stranger's .htaccess is nobody's wish), trailing dots and spaces, the first letter of a
// device's name (CON, NUL …). A query is part of the name (%3F), a trailing slash is
// index.html. What is too long, and what would meet another resource's copy, has "%~" and
// a digest in its name; a directory whose name a file has is NAME%~dir. These cannot
// be the names of others: % is followed by two digits in those.
//
// A path is given once and kept in the Catalog.
//
// # Packages
//
// With Config.Dump, Baseline takes content from the packages of a Resource Dump, and a Bundle from
// one of a Change Dump. A package is one more place that content comes from: from the temporary file
// on, all is as above. What a package has wrong is fetched, or with DumpOnly recorded as Failed.
package mirror
