package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/embedded"
	"github.com/waypost/waypost/db/embedded/filelock"
)

// cluster is this process's part in the shared server.
type cluster struct {
	dir    string
	lease  *filelock.Lock // shared, until the process ends: what the keeper waits for
	server *embedded.Server
	admin  *pgxpool.Pool

	templateOnce sync.Once
	templateName string
	templateErr  error
}

// join is the package's one piece of state: a process joins once, and tests have
// nothing to carry it from one to the next.
var join = sync.OnceValues(func() (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return joinCluster(ctx)
})

func shared(t testing.TB) *cluster {
	t.Helper()
	c, err := join()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return c
}

func joinCluster(ctx context.Context) (*cluster, error) {
	run, err := currentRun()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: run.dir()}
	if c.lease, err = takeLease(ctx, c.dir); err != nil {
		return nil, err
	}
	if c.server, err = attachOrKeep(ctx, run); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(c.server.AdminURL("postgres"))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 2
	if c.admin, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// takeLease makes the run's directory and shares its lease. The keeper may be
// removing that very directory: then there is another try.
func takeLease(ctx context.Context, dir string) (*filelock.Lock, error) {
	for {
		if err := makeOwn(dir); err != nil {
			return nil, err
		}
		lease, err := filelock.Shared(ctx, filepath.Join(dir, leaseFile))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return lease, err
		}
	}
}

// attachOrKeep attaches to the run's server. The first process to come starts a
// keeper and the others wait behind the lock.
func attachOrKeep(ctx context.Context, run testRun) (*embedded.Server, error) {
	lock, err := filelock.Exclusive(ctx, filepath.Join(run.dir(), startFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release() }()
	server, err := embedded.Attach(ctx, run.options())
	if !errors.Is(err, embedded.ErrNotRunning) {
		return server, err
	}
	keeper, err := startKeeper(run)
	if err != nil {
		return nil, err
	}
	for {
		server, err := embedded.Attach(ctx, run.options())
		if !errors.Is(err, embedded.ErrNotRunning) {
			return server, err
		}
		select {
		case <-keeper:
			said, _ := os.ReadFile(filepath.Join(run.dir(), keeperLog))
			return nil, fmt.Errorf("the server could not be started:\n%s", said)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// template names the migrated database that tests are copied from. It is keyed by
// the migrations, and gets its name only once it is complete.
func (c *cluster) template(ctx context.Context) (string, error) {
	c.templateOnce.Do(func() {
		c.templateName = "template_" + db.MigrationsHash()
		// Not the first test's context: the others wait for the same result.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		c.templateErr = c.makeTemplate(ctx)
	})
	return c.templateName, c.templateErr
}

func (c *cluster) makeTemplate(ctx context.Context) error {
	lock, err := filelock.Exclusive(ctx, filepath.Join(c.dir, templateFile))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	var exists bool
	if err := c.admin.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, c.templateName).Scan(&exists); err != nil || exists {
		return err
	}
	building := c.templateName + "_building"
	for _, statement := range []string{
		"drop database if exists " + building + " with (force)",
		"create database " + building + " owner " + embedded.OwnerRole,
	} {
		if _, err := c.admin.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := db.Upgrade(ctx, db.UpgradeOptions{OwnerURL: c.server.OwnerURL(building)}); err != nil {
		return err
	}
	for _, statement := range []string{
		// A single connection to a template keeps everybody from copying it.
		"alter database " + building + " allow_connections false",
		"alter database " + building + " rename to " + c.templateName,
	} {
		if _, err := c.admin.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
