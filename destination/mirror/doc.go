// Package mirror keeps copies of a Source's resources in a directory. It takes the followed changes,
// fetches created and updated resources, and brings the whole directory in step with the Source's
// lists.
//
//	changes ──▶ Take ─────┐
//	lists ────▶ Baseline ─┤    ┌─▶ fetch ─▶ temporary file ─▶ verified ─▶ renamed ─┐
//	Catalog ──▶ Run, ─────┴──▶ jobs, in parallel, one at a time for a resource     ├─▶ Catalog
//	  ▲         Settle         └─▶ removed, or kept and recorded ──────────────────┘      │
//	  └──────────────────────── what failed is due again ◀────────────────────────────────┘
//
// # Guarantees
//
// A file is replaced by a whole one, of the Source's length and every hash of a known algorithm, or
// stays as it was. Nothing is written outside the directory, for any loc. No two resources share a
// file, even on file systems that ignore case or the forms of Unicode. A failure is recorded with its
// reason and tried again, for ever. A deletion is carried out or recorded, never passed over. Copies
// that are merely missing from a list are deleted up to a bound, and only if the list is whole. The
// Catalog is written after the file is there: after a crash some files may be fetched again.
//
// Without Config.Sync a power failure may leave a file that is not whole, which Audit finds. A mirror
// does not fit a set whose parts must change together: each file is replaced by itself.
//
// # Paths
//
// A resource's copy is at HOST/PATH under the directory, HOST+PORT where its port is not the scheme's.
// Names are decoded, so that My%20file is "My file". Characters with a meaning for a file system or a
// shell stay encoded:
//
//   - a slash, a backslash, a percent sign, < > : " | ? *, controls and characters without a
//     visible form;
//   - a leading dot: names with one are this package's own, and a stranger's .htaccess is
//     not wanted;
//   - trailing dots and spaces, and the first letter of a device's name (CON, NUL …).
//
// A query is part of the name (%3F), a trailing slash is index.html. A name that is too long, or that
// would meet another resource's copy, has "%~" and a digest in it; a directory whose name a file has
// is NAME%~dir. Other names cannot look like these: % is followed by two digits in them.
//
// A path is given once and kept in the Catalog.
//
// # Packages
//
// With Config.Dump, Baseline takes content from the packages of a Resource Dump, and a Bundle from one
// of a Change Dump. A package is one more place that content comes from: from the temporary file on,
// all is as above. Wrong content of a package is fetched instead, or with DumpOnly recorded as Failed.
package mirror
