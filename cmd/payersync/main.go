// Command payersync keeps a billing service's customers and direct debit mandates in step with an accounting
// system. Each command has a file of its own: a constructor for its flags, and a function for its work. All
// other code is in the packages below internal. This is the only package that reads the environment.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // schedules name time zones, and not every machine knows them

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/heap"
	"payersync/connector/transport"
)

func main() {
	// Everything made from here on is for this user alone (fault F96).
	syscall.Umask(0o077)
	transport.SetVersion(version)
	if os.Getenv("GOGC") == "" {
		heap.Pace()
	}
	errOut := show.NewScreen(os.Stderr)
	if err := noCore(); err != nil {
		fmt.Fprintf(errOut, "payersync: a crash may leave secrets in a core file: %v\n", err)
	}
	ctx, stop := interruptible(errOut)
	code := run(ctx, program{Console: &show.Console{In: os.Stdin, Out: show.NewResults(errOut, os.Stdout), ErrOut: errOut},
		getenv: os.LookupEnv}, os.Args[1:])
	stop()
	os.Exit(code)
}

// program holds a command's access to the outside: streams, environment and clock.
type program struct {
	*show.Console
	getenv func(string) (string, bool)
	clock  func() time.Time // nil is time.Now
	design bool             // the pages also show all their parts on one page
	// todo runs the command, so that it asks before each act
	walks bool
	texts func(ctx context.Context, name string) ([]string, error) // of a name in the DNS; nil asks the system's resolver
}

// interruptible returns a context that ends with the first SIGINT or SIGTERM; a second one ends the process
// at once. It also ends when the reader of the output is gone, as behind head. SIGPIPE would end the process
// at once, and leave the files of its account, so it is ignored. It comes for each broken connection, too.
func interruptible(errOut *show.Screen) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signal.Ignore(syscall.SIGPIPE)
	errOut.Unread = cancel
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel() // first: the message may have no reader
		errOut.Interrupted("Stopping: requests in flight are finished first. Ctrl-C again stops at once.")
		if _, ok := <-signals; ok {
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}
