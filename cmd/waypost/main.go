// Command waypost runs and administers a Waypost server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes: 0 success, 1 the work failed, 2 the command line is wrong.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// A closed terminal ends the process cleanly too, unless nohup asked otherwise.
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// A second signal ends the process at once, as people expect of Ctrl-C twice.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "waypost: %v\n", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintln(os.Stderr, "Run `waypost help` to see the commands, or a command with --help.")
		return exitUsage
	}
	return exitFailure
}
