package payload_test

import (
	"strings"
	"testing"

	"carillon/payload"
)

// mutation is a good document with one thing spoiled, and what an Inspector finds then.
type mutation struct {
	doc, old, by    string // the good document, and what is replaced in it
	clause, element string
	level           payload.Level
}

const (
	upLine    = `<rs:ln rel="up" href="https://source.example/museum/capabilitylist.xml"/>`
	t0        = "2026-03-01T09:00:00.000000Z"
	t1        = "2026-03-01T10:00:00.000000Z"
	t2        = "2026-03-01T11:00:00.000000Z"
	datetime0 = ` datetime="2026-03-01T09:01:00.000000Z"`
)

// clauseOf is where each good document is described.
var clauseOf = map[string]string{
	"description": "core §8", "description index": "core §8", "capabilitylist": "core §9",
	"resourcelist": "core §10.1", "resourcelist index": "core §10.2",
	"resourcedump": "core §11.1", "resourcedump index": "core §11.1", "resourcedump-manifest": "core §11.2",
	"changelist": "core §12.1", "changelist index": "core §12.2",
	"changedump": "core §13.1", "changedump index": "core §13.1", "changedump-manifest": "core §13.2",
	"change-notification":  "CN §3",
	"resourcelist-archive": "archives §3", "resourcedump-archive": "archives §4", "changelist-archive": "archives §5", "changedump-archive": "archives §6",
	"resourcelist-archive index": "archives §3.1", "resourcedump-archive index": "archives §3.1",
	"changelist-archive index": "archives §3.1", "changedump-archive index": "archives §3.1",
}

// generalMutations breaks what holds for every document.
func generalMutations(name, doc string) []mutation {
	capability, isIndex := strings.CutSuffix(name, " index")
	entry, other := "url", "sitemap"
	if isIndex {
		entry, other = other, entry
	}
	clause, first := clauseOf[name], "<"+entry+">"
	loc := doc[strings.Index(doc, "<loc>") : strings.Index(doc, "</loc>")+len("</loc>")]
	md := `<rs:md capability="` + capability + `"`
	wholeMD := doc[strings.Index(doc, md):]
	wholeMD = wholeMD[:strings.Index(wholeMD, "/>")+2]
	all := []mutation{
		{name, md, "<rs:md", "core §7", "rs:md/@capability", payload.Error},
		{name, md, `<rs:md capability="other"`, "core §7", "rs:md/@capability", payload.Error},
		{name, md, `<rs:md x="y" capability="` + capability + `"`, "core §7", "", payload.Error},
		{name, md, `<rs:md type="a/b" capability="` + capability + `"`, "core §7", "", payload.Error},
		{name, wholeMD, strings.ReplaceAll(
			strings.ReplaceAll(wholeMD, ` capability="`, ` rs:capability="`), ` until="`, ` rs:until="`,
		), "core §7", "", payload.Error},
		{name, wholeMD, wholeMD + wholeMD, "core §7", "rs:md", payload.Error},
		{name, first, "<" + entry + ` lang="en">`, clause, entry + "[1]", payload.Error},
		{name, loc, "", "core §7", entry + "[1]/loc", payload.Error},
		{name, loc, "<loc>/a</loc>", "core §7", entry + "[1]/loc", payload.Error},
		{name, loc, loc + loc, "core §7", entry + "[1]/loc[2]", payload.Error},
		{name, loc, loc + "<changefreq>often</changefreq>", "core §7", entry + "[1]/changefreq", payload.Error},
		{
			name, doc[strings.Index(doc, first) : strings.Index(doc, "</"+entry+">")+len("</"+entry+">")],
			strings.NewReplacer(first, "<"+other+">", "</"+entry+">", "</"+other+">").Replace(
				doc[strings.Index(doc, first) : strings.Index(doc, "</"+entry+">")+len("</"+entry+">")],
			),
			"core §7", entry + "[1]", payload.Error,
		},
		{name, "</" + entry + ">", `<rs:ln rel="alternate" type="a/b" href="/a"/></` + entry + ">", "core §7", "@href", payload.Error},
		{name, "</" + entry + ">", `<rs:ln type="a/b" href="https://source.example/"/></` + entry + ">", "core §7", "@rel", payload.Error},
	}
	if strings.Contains(doc, upLine) && capability != "change-notification" {
		all = append(all, mutation{name, upLine, "", clause, "rs:ln[@rel='up']", payload.Error})
	}
	// Archives and Source Descriptions have no attribute but the capability: without it
	// rs:md says nothing.
	if wholeMD == md+"/>" {
		all[0].element = "rs:md"
		all = all[1:]
		all = append(all, mutation{name, wholeMD, "", "core §7", "rs:md", payload.Error})
	}
	return all
}

// particularMutations break the rules of one document each.
var particularMutations = []mutation{
	// Source Description and Capability List.
	{"description", `capability="capabilitylist"`, `capability="resourcelist"`, "core §8", "url[1]/rs:md/@capability", payload.Error},
	{"capabilitylist", ` capability="changelist"`, "", "core §9", "url[1]/rs:md/@capability", payload.Error},
	{"capabilitylist", `capability="change-notification"`, `capability="changelist"`, "core §9", "url[2]/rs:md/@capability", payload.Error},
	{"capabilitylist", `rel="hub"`, `rel="via"`, "CN §5", "url[2]/rs:ln[@rel='hub']", payload.Error},
	{"capabilitylist", `capability="changelist"`, `capability="changelist" at="` + t0 + `"`, "core §7", "url[1]/rs:md", payload.Error},
	{"capabilitylist", `capability="changelist"`, `capability="changelist" change="created"`, "core §7", "url[1]/rs:md/@change", payload.Error},
	{"capabilitylist", `rel="up" href="https:`, `rel="up" href="//`, "core §7", "rs:ln[2]/@href", payload.Error},

	// The times of documents.
	{"resourcelist", ` at="` + t0 + `"`, "", "core §10.1", "rs:md/@at", payload.Error},
	{"resourcelist index", ` at="` + t0 + `"`, "", "core §10.2", "rs:md/@at", payload.Error},
	{"resourcedump", ` at="` + t0 + `"`, "", "core §11.1", "rs:md/@at", payload.Error},
	{"resourcedump index", ` at="` + t0 + `"`, "", "core §11.1", "rs:md/@at", payload.Error},
	{"resourcedump-manifest", ` at="` + t0 + `"`, "", "core §11.2", "rs:md/@at", payload.Error},
	{"changelist", ` from="` + t0 + `"`, "", "core §12.1", "rs:md/@from", payload.Error},
	{"changelist index", ` from="` + t0 + `"`, "", "core §12.2", "rs:md/@from", payload.Error},
	{"changedump", ` from="` + t0 + `"`, "", "core §13.1", "rs:md/@from", payload.Error},
	{"changedump index", ` from="` + t0 + `"`, "", "core §13.1", "rs:md/@from", payload.Error},
	{"changedump-manifest", ` from="` + t0 + `"`, "", "core §13.2", "rs:md/@from", payload.Error},
	{"change-notification", ` from="` + t0 + `"`, "", "CN §3", "rs:md/@from", payload.Error},
	{"change-notification", ` until="` + t2 + `"`, "", "CN §3", "rs:md/@until", payload.Error},
	{"resourcelist", ` at="`, ` until="` + t2 + `" at="`, "core §7", "rs:md/@from", payload.Error},
	{"resourcedump", ` at="`, ` from="` + t0 + `" at="`, "core §7", "rs:md/@from", payload.Error},
	{"resourcedump-manifest", ` at="`, ` from="` + t0 + `" at="`, "core §7", "rs:md/@from", payload.Error},
	{"changelist", ` from="`, ` at="` + t0 + `" from="`, "core §7", "rs:md/@at", payload.Error},
	{"changedump", ` from="`, ` completed="` + t0 + `" from="`, "core §7", "rs:md/@at", payload.Error},
	{"changedump-manifest", ` from="`, ` at="` + t0 + `" from="`, "core §7", "rs:md/@at", payload.Error},
	{"change-notification", ` from="`, ` at="` + t0 + `" from="`, "core §7", "rs:md/@at", payload.Error},
	{"resourcelist-archive", `"resourcelist-archive"`, `"resourcelist-archive" at="` + t0 + `"`, "core §7", "rs:md", payload.Error},
	{"changedump-archive", `"changedump-archive"`, `"changedump-archive" from="` + t0 + `"`, "core §7", "rs:md", payload.Error},
	{"capabilitylist", `"capabilitylist"`, `"capabilitylist" at="` + t0 + `"`, "core §7", "rs:md", payload.Error},
	{"resourcelist", ` completed="` + t2, ` completed="2025-01-01T00:00:00Z`, "core §7", "rs:md/@completed", payload.Error},
	{"resourcelist", ` completed="` + t2, ` completed="soon`, "core §7", "rs:md/@completed", payload.Error},
	{"changelist", ` until="` + t2, ` until="2026-02-30`, "core §7", "rs:md/@until", payload.Error},

	// Changes.
	{"changelist", `change="updated" `, "", "core §12.1", "url[1]/rs:md/@change", payload.Error},
	{"changelist", `"updated"`, `"Updated"`, "core §12.1", "url[1]/rs:md/@change", payload.Error},
	{"changedump-manifest", `change="updated" `, "", "core §13.2", "url[1]/rs:md/@change", payload.Error},
	{"changedump-manifest", `"updated"`, `"moved"`, "core §13.2", "url[1]/rs:md/@change", payload.Error},
	{"change-notification", `change="updated" `, "", "CN §3", "url[1]/rs:md/@change", payload.Error},
	{"change-notification", `"deleted"`, `"gone"`, "CN §3", "url[2]/rs:md/@change", payload.Error},
	{"changelist", datetime0, ` datetime="now"`, "core §7", "url[1]/rs:md/@datetime", payload.Error},
	{"changelist", datetime0, ` datetime="2026-03-01T10:30:00Z"`, "core §12.1", "url[2]/rs:md/@datetime", payload.Error},
	{"changedump-manifest", datetime0, ` datetime="2026-03-01T10:30:00Z"`, "core §13.2", "url[2]/rs:md/@datetime", payload.Error},
	{"change-notification", datetime0, ` datetime="2026-03-01T10:30:00Z"`, "CN §3", "url[2]/rs:md/@datetime", payload.Error},
	{"changelist", datetime0, ` datetime="2026-03-01T08:59:59Z"`, "core §7", "url[1]/rs:md/@datetime", payload.Error},
	{"changedump-manifest", ` datetime="` + t1, ` datetime="2026-03-01T11:00:01Z`, "core §7", "url[2]/rs:md/@datetime", payload.Error},
	{"change-notification", ` datetime="` + t1, ` datetime="2026-03-02T00:00:00Z`, "core §7", "url[2]/rs:md/@datetime", payload.Error},
	{"resourcelist", ` hash=`, ` change="updated" hash=`, "core §7", "url[1]/rs:md/@change", payload.Error},
	{"resourcelist", ` hash=`, ` datetime="` + t0 + `" hash=`, "core §7", "url[1]/rs:md/@change", payload.Error},
	{"resourcedump-manifest", ` hash=`, ` change="created" hash=`, "core §7", "url[1]/rs:md/@change", payload.Error},
	{"resourcedump", ` hash=`, ` change="created" hash=`, "core §7", "url[1]/rs:md/@change", payload.Error},
	{"changelist", ` change="updated"`, ` change="updated" from="` + t0 + `"`, "core §7", "url[1]/rs:md", payload.Error},
	{"change-notification", ` change="updated"`, ` change="updated" at="` + t0 + `"`, "core §7", "url[1]/rs:md", payload.Error},
	{"changedump-manifest", ` change="updated"`, ` change="updated" until="` + t0 + `"`, "core §7", "url[1]/rs:md", payload.Error},
	{"resourcelist", ` hash=`, ` completed="` + t0 + `" hash=`, "core §7", "url[1]/rs:md", payload.Error},
	{"resourcedump-manifest", ` hash=`, ` at="` + t0 + `" hash=`, "core §7", "url[1]/rs:md", payload.Error},

	// Representations.
	{"resourcelist", "<lastmod>2026-03-01T08", "<lastmod>2026-03-01 08", "core §7", "url[1]/lastmod", payload.Error},
	{"changelist index", "<lastmod>2026-03-01T12", "<lastmod>2026-03-01 12", "core §7", "sitemap[1]/lastmod", payload.Error},
	{"resourcelist", "md5:1584abdf", "md5:1584abdg", "core §7", "url[1]/rs:md/@hash", payload.Error},
	{"resourcelist", "md5:1584abdf", "md5:84abdf", "core §7", "url[1]/rs:md/@hash", payload.Error},
	{"changelist", "md5:1584abdf", "1584abdf", "core §7", "url[1]/rs:md/@hash", payload.Error},
	{"resourcedump", "md5:1584abdf", "md5 1584abdf", "core §7", "url[1]/rs:md/@hash", payload.Error},
	{"resourcelist", `length="8876"`, `length="8.9 kB"`, "core §7", "url[1]/rs:md/@length", payload.Error},
	{"resourcedump", `length="4765"`, `length="-1"`, "core §7", "url[1]/rs:md/@length", payload.Error},
	{"changelist", `type="text/html" enc`, `type="html" enc`, "core §7", "url[1]/rs:md/@type", payload.Error},
	{"resourcelist", `encoding="gzip"`, `encoding="gzip br"`, "core §7", "url[1]/rs:md/@encoding", payload.Error},
	{"resourcelist", `</url>`, `<rs:md length="1"/></url>`, "core §7", "url[1]/rs:md[2]", payload.Error},
	{"changelist", ` length="8876"`, ` rs:length="8876"`, "core §7", "url[1]", payload.Error},
	{"changelist", ` length="8876"`, ` length="8876" size="1"`, "core §7", "url[1]", payload.Error},
	{"changelist", ` pri="1"`, ` title="1"`, "core §7", "url[1]", payload.Error},

	// Dumps and their manifests.
	{"resourcedump-manifest", ` path="/content/a"`, "", "core §11.2", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump-manifest", ` path="/content/a"`, ` path="content/a"`, "core §11.2", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump-manifest", ` path="/content/a"`, ` path="/../a"`, "core §11.2", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump-manifest", ` path="/content/a"`, ` path="/manifest.xml"`, "core §11.2", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump-manifest", ` path="/content/a"`, ` path="/content/"`, "core §11.2", "url[1]/rs:md/@path", payload.Error},
	{"changedump-manifest", ` path="/content/a"`, "", "core §13.2", "url[1]/rs:md/@path", payload.Error},
	{"changedump-manifest", ` path="/content/a"`, ` path="content/a"`, "core §13.2", "url[1]/rs:md/@path", payload.Error},
	{"changedump-manifest", ` path="/content/a"`, ` path="C:\a"`, "core §13.2", "url[1]/rs:md/@path", payload.Error},
	{"resourcelist", ` hash=`, ` path="/a" hash=`, "core §7", "url[1]/rs:md/@path", payload.Error},
	{"changelist", ` hash=`, ` path="/a" hash=`, "core §7", "url[1]/rs:md/@path", payload.Error},
	{"change-notification", ` hash=`, ` path="/a" hash=`, "core §7", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump", ` hash=`, ` path="/a" hash=`, "core §7", "url[1]/rs:md/@path", payload.Error},
	{"resourcedump", `<rs:md at="` + t0, `<rs:md from="` + t0 + `" at="` + t0, "core §7", "url[1]/rs:md/@from", payload.Error},
	{"changedump", `<rs:md from="` + t0, `<rs:md at="` + t0 + `" from="` + t0, "core §7", "url[1]/rs:md/@at", payload.Error},
	{"resourcedump", `<rs:md at="` + t0, `<rs:md at="then`, "core §7", "url[1]/rs:md/@at", payload.Error},
	{"resourcedump", `<rs:md at="` + t0 + `" completed="` + t1, `<rs:md at="` + t1 + `" completed="` + t0, "core §7", "url[1]/rs:md/@completed", payload.Error},

	// Indexes and archives.
	{"changelist index", `<rs:md from="` + t0, `<rs:md at="` + t0 + `" from="` + t0, "core §7", "sitemap[1]/rs:md/@at", payload.Error},
	{"resourcelist index", `<rs:md at="` + t0, `<rs:md from="` + t0 + `" at="` + t0, "core §7", "sitemap[1]/rs:md/@from", payload.Error},
	{"resourcedump index", `<rs:md at="` + t0, `<rs:md until="` + t0 + `" at="` + t0, "core §7", "sitemap[1]/rs:md/@from", payload.Error},
	{"changelist index", `until="` + t1, `until="noon`, "core §7", "sitemap[1]/rs:md/@until", payload.Error},
	{"changelist-archive", `<rs:md from="` + t0 + `" until="` + t1, `<rs:md from="2026-03-01T10:30:00Z" until="` + t2, "archives §5", "url[2]/rs:md/@from", payload.Error},
	{"changedump-archive", `<rs:md from="` + t0 + `" until="` + t1, `<rs:md from="2026-03-01T10:30:00Z" until="` + t2, "archives §6", "url[2]/rs:md/@from", payload.Error},
	{"changelist index", `<rs:md from="` + t0 + `" until="` + t1, `<rs:md from="2026-03-01T10:30:00Z" until="` + t2, "core §12.2", "sitemap[2]/rs:md/@from", payload.Error},
	{"changedump index", `<rs:md from="` + t0 + `" until="` + t1, `<rs:md from="2026-03-01T10:30:00Z" until="` + t2, "core §13.1", "sitemap[2]/rs:md/@from", payload.Error},
	{"changelist-archive", `<rs:md from="` + t0, `<rs:md at="` + t0 + `" from="` + t0, "core §7", "url[1]/rs:md/@at", payload.Error},
	{"resourcelist-archive", `<rs:md at="` + t0, `<rs:md from="` + t0 + `" at="` + t0, "core §7", "url[1]/rs:md/@from", payload.Error},
	{"resourcedump-archive", `completed="` + t1, `completed="2025-01-01T00:00:00Z`, "core §7", "url[1]/rs:md/@completed", payload.Error},
	{"changedump-archive", `until="` + t1, `until="` + "2026-03-01T08:00:00Z", "core §7", "url[1]/rs:md/@until", payload.Error},
	{"resourcelist index", `completed="` + t1, `completed="` + "2026-03-01T08:00:00Z", "core §7", "sitemap[1]/rs:md/@completed", payload.Error},
	{"changelist-archive", `until="` + t1, `until="then`, "core §7", "url[1]/rs:md/@until", payload.Error},

	// Links.
	{"changelist", ` type="application/json-patch+json"`, "", "core §14.4", "url[1]/rs:ln[4]/@type", payload.Error},
	{"changedump-manifest", ` type="application/json-patch+json"`, "", "core §14.4", "url[1]/rs:ln[4]/@type", payload.Error},
	{"changedump-manifest", ` path="/patches/a"`, "", "core §14.4", "url[1]/rs:ln[4]/@path", payload.Error},
	{"changelist", ` type="application/json-patch+json"`, ` type="application/json-patch+json" path="/a"`, "core §7", "url[1]/rs:ln[4]/@path", payload.Error},
	{"resourcelist", `rel="canonical"`, `rel="` + payload.RelPatch + `" type="a/b"`, "core §14.4", "url[1]/rs:ln[3]/@rel", payload.Error},
	{"resourcedump-manifest", `rel="canonical"`, `rel="` + payload.RelPatch + `" type="a/b"`, "core §14.4", "url[1]/rs:ln[3]/@rel", payload.Error},
	{"changelist", ` pri="1"`, ` pri="0"`, "core §7", "url[1]/rs:ln[1]/@pri", payload.Error},
	{"changelist", ` pri="1"`, ` pri="1000000"`, "core §7", "url[1]/rs:ln[1]/@pri", payload.Error},
	{"changelist", ` pri="1"`, ` pri="1" path="/a"`, "core §7", "url[1]/rs:ln[1]/@path", payload.Error},
	{"changelist", ` href="https://other.example/duplicate"`, "", "core §7", "url[1]/rs:ln[1]/@href", payload.Error},
	{"changelist", ` rel="via"`, "", "core §7", "url[1]/rs:ln[12]/@rel", payload.Error},
	{"changelist", ` rel="via"`, ` rel="Via"`, "core §7", "url[1]/rs:ln[12]/@rel", payload.Error},
	{"changelist", ` rel="collection"`, ` rel="member of"`, "core §7", "url[1]/rs:ln[11]/@rel", payload.Error},
	{"change-notification", ` type="application/json-patch+json"`, ` type="patch"`, "core §7", "url[1]/rs:ln[4]/@type", payload.Error},
	{"resourcelist", ` modified="`, ` modified="x`, "core §7", "url[1]/rs:ln[1]/@modified", payload.Error},
	{"resourcedump", `rel="contents" href="https:`, `rel="contents" href="//`, "core §7", "url[1]/rs:ln[1]/@href", payload.Error},
	{"changelist", upLine, upLine + `<rs:ln rel="index" href="index.xml"/>`, "core §7", "rs:ln[2]/@href", payload.Error},
	{"changelist", upLine, upLine + `<rs:ln rel="archives" href="/archive.xml"/>`, "core §7", "rs:ln[2]/@href", payload.Error},

	// The root element.
	{"change-notification", "urlset", "sitemapindex", "CN §3", "", payload.Error},
	{"resourcedump-manifest", "urlset", "sitemapindex", "core §11.2", "", payload.Error},
	{"changedump-manifest", "urlset", "sitemapindex", "core §13.2", "", payload.Error},
	{"capabilitylist", "urlset", "sitemapindex", "core §9", "", payload.Warning},
}

// recommendations are what should be otherwise, and what is read in one way here.
var recommendations = []mutation{
	{"description", `<rs:ln rel="describedby" href="https://source.example/about.html"/>`, "", "core §8", "rs:ln[@rel='describedby']", payload.Warning},
	{"description", `<rs:ln rel="describedby" href="https://source.example/museum/about.html"/>`, "", "core §8", "url[1]/rs:ln[@rel='describedby']", payload.Warning},
	{"description", ` capability="capabilitylist"`, ` `, "core §8", "url[1]/rs:md/@capability", payload.Note},
	{"capabilitylist", `rel="describedby"`, `rel="author"`, "core §9", "rs:ln[@rel='describedby']", payload.Warning},
	{"capabilitylist", `capability="changelist"`, `capability="changes"`, "core §9", "url[1]/rs:md/@capability", payload.Note},
	{"resourcelist-archive", ` at="` + t1 + `"`, "", "archives §3", "url[2]/rs:md/@at", payload.Note},
	{"resourcelist", ` at="` + t0, ` at="2026-03-01`, "core §7", "rs:md/@at", payload.Warning},
	{"resourcelist", "<lastmod>2026-03-01T08:00:00Z", "<lastmod>2026-03-01", "core §7", "url[1]/lastmod", payload.Warning},
	{"changelist", datetime0, ` datetime="2026-03-01T10:01:00+01:00"`, "core §7", "url[1]/rs:md/@datetime", payload.Warning},
	{"changelist", datetime0, "", "core §12.1", "url[1]/rs:md/@datetime", payload.Note},
	{"changelist index", ` until="` + t1, ` until="2026-03-01T11:00:00+01:00`, "core §7", "sitemap[1]/rs:md/@until", payload.Warning},
	{"changelist index", `<rs:md from="` + t1 + `" until="` + t2 + `"/>`, "", "core §12.2", "sitemap[2]/rs:md/@from", payload.Warning},
	{"changelist index", ` until="` + t1 + `"`, "", "core §12.2", "sitemap[1]/rs:md/@until", payload.Note},
	{"changelist index", ` until="` + t1, ` until="2026-03-01T10:30:00Z`, "core §12.2", "sitemap[2]/rs:md/@from", payload.Note},
	{"changelist index", ` until="` + t1, ` until="2026-03-01T09:30:00Z`, "core §12.2", "sitemap[2]/rs:md/@from", payload.Warning},
	{"changedump", `<rs:md from="` + t0 + `" until="` + t1, `<rs:md from="2026-03-01T10:30:00Z" until="` + t2, "core §13.1", "url[2]/rs:md/@from", payload.Warning},
	{"resourcedump", ` length="4765"`, "", "core §11.1", "url[1]/rs:md/@length", payload.Warning},
	{"changedump", ` type="application/zip"`, "", "core §13.1", "url[1]/rs:md/@type", payload.Warning},
	{"resourcedump", ` type="application/zip"`, ` type="application/x-zip-compressed"`, "core §11.1", "url[2]/rs:md/@type", payload.Warning},
	{"resourcedump-manifest", ` type="text/html" encoding`, " encoding", "core §11.2", "url[1]/rs:md/@type", payload.Warning},
	{"changedump-manifest", `change="deleted"`, `change="deleted" path="/b"`, "core §13.2", "url[2]/rs:md/@path", payload.Note},
	{"changedump-manifest", ` path="/content/a"`, ` path="/content\a"`, "core §13.2", "url[1]/rs:md/@path", payload.Note},
	{"resourcelist", "md5:1584abdf8ebdc9802ac0c6a7402c03b6", "crc32:00000000", "core §7", "url[1]/rs:md/@hash", payload.Note},
	{"resourcelist", `rel="canonical"`, `rel="canonical" hash="crc32:00000000"`, "core §7", "url[1]/rs:ln[3]/@hash", payload.Note},
	{"resourcelist", ` hash=`, ` capability="resourcelist" hash=`, "core §7", "url[1]/rs:md/@capability", payload.Note},
	{"resourcelist", `<url>`, `<url><rs:link/>`, "core §7", "url[1]", payload.Note},
	{"resourcelist", upLine, upLine + upLine, "core §7", "rs:ln[@rel='up']", payload.Note},
	{"resourcelist index", upLine, upLine + `<rs:ln rel="index" href="https://source.example/"/>`, "core §7", "rs:ln[@rel='index']", payload.Note},
	{"changelist-archive", upLine, upLine + `<rs:ln rel="archives" href="https://source.example/"/>`, "archives §2.2", "rs:ln[@rel='archives']", payload.Note},
	{"changelist", ` pri="1"`, ` length="8876"`, "core §14.2", "url[1]/rs:ln[1]", payload.Warning},
	{
		"changelist", `rel="alternate" href="https://other.example/alternate" type="text/html"`,
		`rel="alternate" href="https://other.example/alternate"`, "core §14.3",
		"url[1]/rs:ln[2]/@type", payload.Warning,
	},
	{"changelist", `rel="timegate"`, `rel="timegate" type="text/html"`, "core §14.6", "url[1]/rs:ln[9]", payload.Warning},
	{
		"changelist",
		`rel="memento" href="https://other.example/memento" modified="2026-03-01T08:00:00Z"`,
		`rel="memento" href="https://other.example/memento"`, "core §14.6",
		"url[1]/rs:ln[8]/@modified", payload.Note,
	},
	{"changelist", `rel="collection"`, `rel="collektion"`, "core §7", "url[1]/rs:ln[11]/@rel", payload.Note},
	{"changelist", upLine, upLine + `<rs:ln rel="about-us" href="https://source.example/"/>`, "core §7", "rs:ln[2]/@rel", payload.Note},
	{"resourcelist", "https://source.example/b", "https://source.example/a", "core §10.1", "url[2]/loc", payload.Warning},
	{"changelist", `rel="collection"`, `rel="via"`, "core §14.8", "url[1]/rs:ln[@rel='via']", payload.Warning},
	{"changelist", `rel="collection"`, `rel="contents"`, "core §7", "url[1]/rs:ln[11]/@rel", payload.Note},
}

// TestMutations spoils each good document in each way, and wants one finding with the right
// clause, place and level.
func TestMutations(t *testing.T) {
	docs := goodDocuments(t)
	all := append(particularMutations[:len(particularMutations):len(particularMutations)], recommendations...)
	for name, doc := range docs {
		all = append(all, generalMutations(name, doc)...)
	}
	musts := 0
	for _, m := range all {
		if m.level == payload.Error {
			musts++
		}
		doc := swap(docs[m.doc], m.old, m.by)
		if m.old == "urlset" {
			doc = strings.NewReplacer("urlset", "sitemapindex", "<url>", "<sitemap>", "</url>", "</sitemap>").Replace(docs[m.doc])
		}
		i := payload.NewInspector("")
		if _, _, err := inspect(strings.NewReader(doc), i); err != nil {
			t.Errorf("%s, %s: %v", m.doc, m.by, err)
			continue
		}
		found := i.Violations()
		if len(found) != 1 || found[0].Clause != m.clause || found[0].Level != m.level || !strings.HasSuffix(found[0].Element, m.element) {
			t.Errorf("%s, %q for %q: got %+v, want %s %s of %q", m.doc, m.by, m.old, found, m.level, m.clause, m.element)
			continue
		}
		where, _, _ := strings.Cut(found[0].Element, "[")
		if where != "url" && where != "sitemap" {
			where = "urlset"
			if strings.Contains(doc, "sitemapindex") {
				where = "sitemapindex"
			}
		}
		line := strings.Split(doc, "\n")[found[0].Line-1]
		if v := found[0]; v.Mend == "" || v.Times < 1 || !strings.Contains(line, where) && !strings.Contains(m.by, line) || v.Message == "" {
			t.Errorf("%s, %q for %q: got %+v in %s", m.doc, m.by, m.old, v, line)
		}
	}
	if musts < 120 || len(particularMutations) < 120 {
		t.Errorf("%d mutations break a must, %d of them are particular", musts, len(particularMutations))
	}
	t.Logf("%d mutations, %d of them break a must", len(all), musts)
}
