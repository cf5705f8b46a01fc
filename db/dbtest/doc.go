// Package dbtest gives each test a database of its own, migrated, in a real
// PostgreSQL server.
//
// One server serves all the packages of one `go test ./...`. The first test that
// needs it starts it; when the go command has ended, so has the server, and its
// files are gone. For that the test binary runs itself a second time as the
// keeper: a process in a session of its own that holds the server (package
// embedded), waits until the go command and every test process are gone, stops
// the server and removes its directory. Under anything but the go command (an
// IDE, a debugger) the keeper leaves five seconds after the last test process.
//
// The server's files lie in memory where there is room for them (package fastdir).
// What tests start there themselves ends with the run, too: see Dir.
//
// Packages that use dbtest need no TestMain.
package dbtest
