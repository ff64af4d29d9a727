//go:build !race

package together

// perProcessor is how many such tests run at a time for each processor.
const perProcessor = 4
