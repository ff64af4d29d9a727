// Package program is what the commands share: flags with their environment
// variables and configuration file, the logger, listeners and servers with
// their limits, the ready line, and an end that comes in time.
//
// A command is a function run(ctx, args, stdout, stderr) that returns its
// exit status; Main calls it with a context that ends at SIGINT or SIGTERM.
package program
