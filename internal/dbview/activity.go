package dbview

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backend is a connection to the database.
type Backend struct {
	PID                     int
	User, Application, From string
	// State is what PostgreSQL calls it, "" where that may not be seen.
	State string
	// WaitsFor is an event, "" for none.
	WaitsFor string
	// Since is when the state began, Transaction when the transaction did.
	Since, Transaction *time.Time
	// BlockedBy are the connections whose locks it waits for.
	BlockedBy []int32
	// Query is what it executes; "" for nothing, and where that may not be seen.
	Query string
}

// activity shows the statements of the service itself, which have their values in
// arguments. What others execute, such as people with psql, may have secrets in it.
const activity = `
select a.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(a.state, ''),
       coalesce(case when a.state <> 'idle' then a.wait_event_type || ': ' || a.wait_event end, ''), a.state_change, a.xact_start,
       case when l.waits then pg_blocking_pids(a.pid) else '{}' end,
       coalesce(case when a.state <> 'idle' and a.usename = session_user and a.application_name = current_setting('application_name') then left(a.query, 1000) end, '')
from pg_stat_activity a
cross join lateral (select exists (select from pg_locks k where k.pid = a.pid and not k.granted) as waits) l
where a.datname = current_database() and a.pid <> pg_backend_pid()
order by l.waits desc, a.state = 'active' desc nulls last, a.xact_start nulls last, a.pid
limit 500`

// Lock is a kind of lock on a table, or on something else.
type Lock struct {
	On, Mode string
	Granted  bool
	Count    int64
	PIDs     []int32
}

const locks = `
select coalesce(c.relname::text, k.locktype), k.mode, k.granted, count(*), (array_agg(distinct k.pid order by k.pid))[1:20]
from pg_locks k left join pg_class c on c.oid = k.relation
where k.pid <> pg_backend_pid() and k.locktype <> 'virtualxid'
  and (k.database is null or k.database in (0, (select oid from pg_database where datname = current_database())))
group by 1, 2, 3 order by k.granted, 1, 2
limit 500`

// Activity is what goes on in the database at one moment.
type Activity struct {
	Backends []Backend
	Locks    []Lock
}

// Activity says who is connected, what they do, and who waits for whom.
func (s *Service) Activity(ctx context.Context) (Activity, error) {
	var found Activity
	err := s.look(ctx, map[string]any{"what": "database view", "page": "activity"}, func(ctx context.Context, tx pgx.Tx) error {
		// PostgreSQL lets a user see what their own connections do, and connections
		// are those of who signs in, not of the role that they act as.
		if _, err := tx.Exec(ctx, `set local role none`); err != nil {
			return err
		}
		var err error
		if found.Backends, err = collect[Backend](ctx, tx, activity); err != nil {
			return err
		}
		found.Locks, err = collect[Lock](ctx, tx, locks)
		return err
	})
	if err != nil {
		return Activity{}, fmt.Errorf("dbview: activity: %w", err)
	}
	return found, nil
}
