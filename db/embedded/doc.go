// Package embedded runs a private PostgreSQL server under a data directory: it
// finds the programs, makes the cluster, starts the server as a child process,
// restarts it when it dies, and stops it.
//
// # Who may connect
//
// The server listens on a unix socket only, and lets in whoever reaches it, as
// any role ("trust"). What decides is the socket's directory: mode 0700, owned
// by the server's user, so that this user and root get through and nobody else.
// Whoever works as the server's user could read the cluster's files anyway, so a
// password would guard nothing. An unprivileged Waypost runs the server as its
// own user. Root drops to the owner of an existing cluster, else to the user
// postgres, else nobody.
//
// # Where things lie
//
// In the data directory: postgres.json (the cluster's identity),
// postgres.lock, postgres.lease, and postgres/ with the cluster, its socket and
// server.log. When Waypost runs as root and the server's user can't enter the
// data directory (a checkout in root's own home), that last directory is
// /var/lib/waypost/<identity> instead. Deleting the data directory deletes the
// identity: a new start at the same path makes a new cluster and never sees the
// old one, which in the relocated case remains on disk until it is removed by hand.
// A path too long for a socket (over 103 bytes), or with a comma in it, has it in /tmp/waypost-<identity>.
//
// # Who holds the server
//
// One process holds it: it has the exclusive lock and supervises. Others attach.
// Everybody shares the lease, and the last to leave stops the server; an attached
// process that outlives the holder takes over. Both are flock(2) locks, which the
// kernel drops with their process, so kill -9 leaves a server but no lock: the
// next start stops that server and starts its own, or takes it over when attached
// processes still use it. A pid read from a file is never signalled or believed
// before its process's command line has shown that it serves this very cluster.
package embedded
