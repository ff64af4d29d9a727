// Package machine is what a process may have of its machine, and who else may see its files:
// open files, memory, the owners and the modes of directories. All commands and the hub ask it;
// OwnFilesOnly and KeepMemory alone change how the process works.
package machine
