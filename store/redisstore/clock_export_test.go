package redisstore

// Apart is what is warned of clocks that differ.
var Apart = apart
