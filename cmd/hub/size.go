package main

import "carillon/cmd/internal/program"

// byteSize is a number of bytes, as an operator writes it.
type byteSize = program.ByteSize
