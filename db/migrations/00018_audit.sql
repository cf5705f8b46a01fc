-- The audit log: every change of a business table, written by the database in the
-- change's own transaction and afterwards chained by hashes. docs/audit.md has the
-- layout of the bytes.

-- +goose Up
alter table installation add column install_id uuid not null default gen_random_uuid();

-- Tables that are no business of the log. Every other table of the schema must have
-- the triggers of audit_cover, or `serve` doesn't start.
create table audit_excluded (
    pattern text primary key, -- of LIKE
    reason  text not null
);
insert into audit_excluded (pattern, reason) values
    ('goose\_db\_version', 'migrations'),
    ('river\_%', 'the queue''s own'),
    ('audit\_excluded', 'the log itself'),
    ('audit\_pending', 'the log itself'),
    ('audit\_log', 'the log itself'),
    ('audit\_head', 'the log itself'),
    ('audit\_tree', 'the log itself'),
    ('audit\_checkpoints', 'the log itself'),
    ('audit\_verifications', 'the log itself'),
    ('events', 'statistics'),
    ('sessions', 'statistics'),
    ('session\_heads', 'statistics'),
    ('site\_days', 'statistics'),
    ('site\_drops', 'statistics'),
    ('site\_imports', 'statistics'),
    ('imported\_lines', 'statistics'),
    ('reported\_events', 'statistics'),
    ('rollup\_%', 'statistics'),
    ('throttles', 'counters'),
    ('oauth\_flows', 'sign-ins that are under way'),
    ('oauth\_codes', 'sign-ins that are under way'),
    ('webhook\_attempts', 'the event''s own batches say what became of it'),
    ('webhook\_bindings', 'announced by running instances'),
    ('webhook\_rejected', 'a log of its own'),
    ('webhook\_replay\_events', 'the replay''s batches name them');

-- Entries that have no place in the chain yet, in order of insertion. The triggers
-- write them; audit_seal moves them to audit_log.
create table audit_pending (
    id             bigint generated always as identity primary key,
    at             timestamptz not null default clock_timestamp(),
    actor_type     text        not null check (actor_type in ('user', 'token', 'job', 'cli', 'system', 'webhook', 'anonymous')),
    actor_id       text,
    session_id     text,
    ip             text,
    request_id     text,
    action         text,
    op             text        not null check (op in ('insert', 'update', 'delete', 'batch', 'note')),
    table_name     text,
    row_id         text,
    salt           bytea       not null,
    changes        text        not null,
    changes_digest bytea       not null
);

-- The chain. salt and changes are null once emptied; the digest stays.
create table audit_log (
    seq            bigint      primary key,
    at             timestamptz not null,
    actor_type     text        not null,
    actor_id       text,
    session_id     text,
    ip             text,
    request_id     text,
    action         text,
    op             text        not null,
    table_name     text,
    row_id         text,
    salt           bytea,
    changes        text,
    changes_digest bytea       not null,
    prev_hash      bytea       not null,
    hash           bytea       not null
);
create index audit_log_at on audit_log using brin (at) with (pages_per_range = 16);
create index audit_log_row on audit_log (table_name, row_id, seq);
create index audit_log_actor on audit_log (actor_id, seq);
create index audit_log_action on audit_log (action, seq);
create index audit_log_request on audit_log (request_id, seq);
-- Which entries say that rows of a batch are gone.
create index audit_log_gone on audit_log using gin ((changes::jsonb -> 'old' -> 'ids')) where op = 'batch' and changes like '%"old": {%';
-- Which entries say that others were emptied.
create index audit_log_emptied on audit_log (seq) where op = 'note' and table_name = 'audit_log';

-- Sealing takes the lock of this row, which only the owner can take.
create table audit_head (
    one_row    boolean primary key default true check (one_row),
    seq        bigint  not null,
    hash       bytea   not null,
    -- Retention has emptied the entries up to this one.
    emptied_to bigint  not null default 0,
    -- No entry with an insertion id up to sealed_to can wait any more, so sealing need
    -- not look there, where vacuum may be held up. That holds for ids up to mark_id
    -- once all transactions before mark_xid have ended: a transaction has its id before
    -- its entries have theirs, and mark_xid was assigned after mark_id was.
    sealed_to  bigint  not null default 0,
    mark_id    bigint  not null default 0,
    mark_xid   xid8    not null default '0'
);
insert into audit_head (seq, hash) select 0, sha256(convert_to('audit.v1:' || install_id, 'UTF8')) from installation;

-- Nodes of the Merkle tree (RFC 6962, section 2.1), from level 8 up: node idx of a
-- level is over the leaves of seq idx * 2^level + 1 to (idx + 1) * 2^level. What is
-- below is computed from the entries.
create table audit_tree (
    level smallint not null,
    idx   bigint   not null,
    hash  bytea    not null,
    primary key (level, idx)
);

create table audit_checkpoints (
    size      bigint      primary key,
    root      bytea       not null,
    head_hash bytea       not null,
    at        timestamptz not null,
    note      text        not null
);

-- The key that signs checkpoints.
create table audit_keys (
    one_row         boolean     primary key default true check (one_row),
    public_key      bytea       not null,
    private_key     bytea       not null,
    wrapping_key_id text        not null,
    created_at      timestamptz not null
);
comment on column audit_keys.private_key is 'Ed25519 seed, encrypted: 12 bytes of nonce, then AES-256-GCM';

-- What the latest verifications found.
create table audit_verifications (
    kind       text        primary key check (kind in ('recent', 'whole')),
    at         timestamptz not null,
    to_seq     bigint      not null,
    to_hash    bytea       not null,
    ok         boolean     not null,
    bad_seq    bigint,
    bad_reason text        not null default '',
    alerted    boolean     not null default false
);

-- +goose StatementBegin
create function audit_lp(b bytea) returns bytea language sql immutable parallel safe as $$ select int4send(octet_length(b)) || b $$;
-- +goose StatementEnd

-- Stable, like convert_to, so that it is inlined.
-- +goose StatementBegin
create function audit_opt(t text) returns bytea language sql stable parallel safe as $$
select case when t is null then '\x00'::bytea else '\x01'::bytea || int4send(octet_length(convert_to(t, 'UTF8'))) || convert_to(t, 'UTF8') end $$;
-- +goose StatementEnd

-- Functions without a search path of their own run with that of the definer's function
-- that calls them.

-- Who acts, or an error. '' is what an earlier SET LOCAL leaves behind.
-- +goose StatementBegin
create function audit_actor(of_table text) returns text language plpgsql stable as $$
declare
    actor text := nullif(current_setting('waypost.actor_type', true), '');
begin
    if actor is null then
        raise exception 'a change of % needs an actor', of_table using
            errcode = 'insufficient_privilege',
            hint = 'Say who you are first: SET waypost.actor_type = ''cli''; SET waypost.actor_id = ''your name''; SET waypost.action = ''cli:psql'';';
    end if;
    -- As programs of schema 17, which may still run, call them.
    return case actor when 'provider' then 'webhook' when 'site' then 'system' else actor end;
end $$;
-- +goose StatementEnd

-- Writes an entry. Nobody but the functions here may call it. The transaction has its
-- id before the entry has its own: see audit_head.mark_xid.
-- +goose StatementBegin
create function audit_write(op text, of_table text, of_row text, changes text) returns void language plpgsql as $$
declare
    salt bytea := uuid_send(gen_random_uuid());
begin
    perform pg_current_xact_id();
    insert into audit_pending (actor_type, actor_id, session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest)
    values (audit_actor(coalesce(of_table, 'nothing')), nullif(current_setting('waypost.actor_id', true), ''),
            nullif(current_setting('waypost.session_id', true), ''), nullif(current_setting('waypost.ip', true), ''),
            nullif(current_setting('waypost.request_id', true), ''), nullif(current_setting('waypost.action', true), ''),
            op, of_table, of_row, salt, changes, sha256(salt || convert_to(changes, 'UTF8')));
end $$;
-- +goose StatementEnd

-- A row as an entry shows it: secrets are redacted, and of what is larger than 4 KiB
-- there is only the digest.
-- +goose StatementBegin
create function audit_shown(r jsonb, secrets text[]) returns jsonb language plpgsql immutable as $$
declare
    secret text;
    k      text;
    v      text;
begin
    foreach secret in array secrets loop
        if r -> secret <> 'null'::jsonb then
            r := jsonb_set(r, array[secret], '"[redacted]"');
        end if;
    end loop;
    if octet_length(r::text) > 4096 then
        for k, v in select e.key, r ->> e.key from jsonb_each(r) e where octet_length(r ->> e.key) > 4096 loop
            r := jsonb_set(r, array[k], jsonb_build_object('sha256', encode(sha256(convert_to(v, 'UTF8')), 'hex'), 'bytes', octet_length(v)));
        end loop;
    end if;
    return r;
end $$;
-- +goose StatementEnd

-- The trigger of a table. Its arguments are arrays of column names: the key, those
-- that are secret, and those whose change alone is no entry.
-- +goose StatementBegin
create function audit_row() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    keys    text[] := tg_argv[0];
    secrets text[] := tg_argv[1];
    touches text[] := tg_argv[2];
    o       jsonb;
    n       jsonb;
    k       text;
    id      text;
    changes jsonb;
begin
    perform audit_actor(tg_table_name);
    if tg_op = 'INSERT' then
        n := to_jsonb(new);
        changes := jsonb_build_object('new', audit_shown(n, secrets));
    elsif tg_op = 'DELETE' then
        o := to_jsonb(old);
        changes := jsonb_build_object('old', audit_shown(o, secrets));
    else
        o := to_jsonb(old) - touches;
        n := to_jsonb(new) - touches;
        if o = n then
            return null;
        end if;
        select jsonb_build_object('old', audit_shown(jsonb_object_agg(c.key, o -> c.key), secrets),
                                  'new', audit_shown(jsonb_object_agg(c.key, c.value), secrets))
        into changes from jsonb_each(n) c where c.value is distinct from o -> c.key;
        -- What was changed to a value that looks the same when redacted shows only that.
    end if;
    foreach k in array keys loop
        id := concat_ws('/', id, case when k = any (secrets) then substr(coalesce(n, o) ->> k, 3, 8) else coalesce(n, o) ->> k end);
    end loop;
    perform audit_write(lower(tg_op), tg_table_name, id, changes::text);
    return null;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
create function audit_no_truncate() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
    raise exception 'the table % is audited row by row and can''t be truncated', tg_table_name using errcode = 'insufficient_privilege', hint = 'Use DELETE.';
end $$;
-- +goose StatementEnd

-- Puts a table under the log. Every migration that creates a table calls it, or adds
-- the table to audit_excluded.
-- +goose StatementBegin
create function audit_cover(target regclass, secrets text[] default '{}', touches text[] default '{}') returns void language plpgsql set search_path = public, pg_temp as $$
declare
    keys text[];
begin
    select array_agg(a.attname::text order by array_position(i.indkey::smallint[], a.attnum)) into keys
    from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where i.indrelid = target and i.indisprimary;
    if keys is null then
        raise exception 'the table % has no primary key, so an entry could not name its rows', target;
    end if;
    execute format('create trigger audit_row after insert or update or delete on %s for each row execute function audit_row(%L, %L, %L)', target, keys, secrets, touches);
    execute format('alter table %s enable always trigger audit_row', target);
    execute format('create trigger audit_truncate before truncate on %s for each statement execute function audit_no_truncate()', target);
    execute format('alter table %s enable always trigger audit_truncate', target);
end $$;
-- +goose StatementEnd

-- The digest over webhook events that a batch covers is of these, one after the other
-- by id: lp of each of the id in text, the provider, the type and the external id,
-- then the SHA-256 of the body.
-- +goose StatementBegin
create function audit_webhook_line(id uuid, provider text, event_type text, external_id text, body_sha256 bytea) returns bytea language sql stable parallel safe as $$
select int4send(36) || convert_to(id::text, 'UTF8') || int4send(octet_length(convert_to(provider, 'UTF8'))) || convert_to(provider, 'UTF8')
    || int4send(octet_length(convert_to(event_type, 'UTF8'))) || convert_to(event_type, 'UTF8')
    || int4send(octet_length(convert_to(external_id, 'UTF8'))) || convert_to(external_id, 'UTF8') || body_sha256 $$;
-- +goose StatementEnd

-- The triggers of webhook_events: one entry for all rows of a statement. A claim, a
-- lease or a count of attempts is no entry; an outcome, a replay, an emptied body, and
-- whatever else somebody changes, is.
-- +goose StatementBegin
create function audit_webhook_events() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    batch jsonb;
    other jsonb;
begin
    if tg_op = 'INSERT' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id)), 'hex'))
        into batch from new_rows n having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
        end if;
        return null;
    elsif tg_op = 'DELETE' then
        select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
               'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, coalesce(sha256(o.raw), o.raw_sha256)), '' order by o.id)), 'hex'))
        into batch from old_rows o having count(*) > 0;
        if batch is not null then
            perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
        end if;
        return null;
    end if;
    -- Outcomes and replays.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(n.id order by n.id), 'status', jsonb_agg(n.status order by n.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, n.raw_sha256) || audit_lp(convert_to(n.status, 'UTF8')), '' order by n.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where n.status <> o.status or n.retry_count <> o.retry_count having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('new', batch)::text);
    end if;
    -- Bodies that are gone, by retention.
    select jsonb_build_object('rows', count(*), 'ids', jsonb_agg(o.id order by o.id),
           'sha256', encode(sha256(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id)), 'hex'))
    into batch from new_rows n join old_rows o on o.id = n.id
    where o.raw is not null and n.raw is null having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch)::text);
    end if;
    -- Whatever else: nothing of ours does that.
    select jsonb_build_object('rows', count(o.id), 'ids', jsonb_agg(o.id order by o.id) filter (where o.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(o.id, o.provider, o.event_type, o.external_id, o.raw_sha256), '' order by o.id), '')), 'hex')),
           jsonb_build_object('rows', count(n.id), 'ids', jsonb_agg(n.id order by n.id) filter (where n.id is not null),
               'sha256', encode(sha256(coalesce(string_agg(audit_webhook_line(n.id, n.provider, n.event_type, n.external_id, coalesce(sha256(n.raw), n.raw_sha256)), '' order by n.id), '')), 'hex'))
    into batch, other from new_rows n full join old_rows o on o.id = n.id
    where (n.id, n.provider, n.event_type, n.external_id, n.created_at, n.raw_sha256, n.headers)
          is distinct from (o.id, o.provider, o.event_type, o.external_id, o.created_at, o.raw_sha256, o.headers)
       or n.raw is distinct from o.raw and (n.raw is not null or o.raw is null)
    having count(*) > 0;
    if batch is not null then
        perform audit_write('batch', 'webhook_events', null, jsonb_build_object('old', batch, 'new', other)::text);
    end if;
    return null;
end $$;
-- +goose StatementEnd

-- Tables that are neither under the log nor excluded, with what is wrong.
-- +goose StatementBegin
create function audit_uncovered() returns table (table_name text, problem text) language sql stable set search_path = public, pg_temp as $$
with wanted as (
    select c.oid, c.relname, t.name
    from pg_class c
    cross join lateral unnest(case when c.oid = 'webhook_events'::regclass then array['audit_insert', 'audit_update', 'audit_delete', 'audit_truncate']
                                   else array['audit_row', 'audit_truncate'] end) t (name)
    where c.relkind in ('r', 'p') and not c.relispartition
      and c.relnamespace = (select relnamespace from pg_class where oid = 'installation'::regclass)
      and c.relowner = (select relowner from pg_class where oid = 'installation'::regclass)
      and not exists (select from audit_excluded x where c.relname like x.pattern)
)
select w.relname::text, min(case when t.oid is null then 'it has no trigger ' || w.name
    when t.tgenabled <> 'A' then 'its trigger ' || w.name || ' is not ENABLE ALWAYS'
    else 'its trigger ' || w.name || ' calls another function' end)
from wanted w left join pg_trigger t on t.tgrelid = w.oid and t.tgname = w.name
where t.oid is null or t.tgenabled <> 'A'
   or t.tgfoid <> case when w.name = 'audit_truncate' then 'audit_no_truncate'::regproc
                       when w.name = 'audit_row' then 'audit_row'::regproc else 'audit_webhook_events'::regproc end
group by w.relname order by w.relname $$;
-- +goose StatementEnd

create trigger audit_insert after insert on webhook_events referencing new table as new_rows for each statement execute function audit_webhook_events();
create trigger audit_update after update on webhook_events referencing old table as old_rows new table as new_rows for each statement execute function audit_webhook_events();
create trigger audit_delete after delete on webhook_events referencing old table as old_rows for each statement execute function audit_webhook_events();
create trigger audit_truncate before truncate on webhook_events for each statement execute function audit_no_truncate();
alter table webhook_events enable always trigger audit_insert;
alter table webhook_events enable always trigger audit_update;
alter table webhook_events enable always trigger audit_delete;
alter table webhook_events enable always trigger audit_truncate;

-- An entry about something that is no row: what is a JSON object.
-- +goose StatementBegin
create function audit_note(of_table text, of_row text, what jsonb) returns void language plpgsql security definer set search_path = public, pg_temp as $$
begin
    if of_table like 'audit%' then
        raise exception 'notes about the log are its own' using errcode = 'insufficient_privilege';
    end if;
    perform audit_write('note', of_table, of_row, jsonb_build_object('note', audit_shown(what, '{}'))::text);
end $$;
-- +goose StatementEnd

-- Adds the node of level 8 that ends with an entry, and those above that it completes.
-- +goose StatementBegin
create function audit_tree_add(last bigint) returns void language plpgsql set search_path = public, pg_temp as $$
declare
    nodes bytea[];
    node  bytea;
    lvl   smallint := 8;
    i     bigint   := last / 256 - 1;
begin
    select array_agg(hash order by seq) into nodes from audit_log where seq > last - 256 and seq <= last;
    while cardinality(nodes) > 1 loop
        select array_agg(sha256('\x01'::bytea || nodes[2 * p - 1] || nodes[2 * p]) order by p) into nodes from generate_series(1, cardinality(nodes) / 2) p;
    end loop;
    node := nodes[1];
    loop
        insert into audit_tree (level, idx, hash) values (lvl, i, node);
        exit when i % 2 = 0;
        node := sha256('\x01'::bytea || (select hash from audit_tree where level = lvl and idx = i - 1) || node);
        lvl := lvl + 1;
        i := i / 2;
    end loop;
end $$;
-- +goose StatementEnd

-- Gives committed entries their places, the first most_rows of them, and returns how
-- many those were. The lock comes first, in a statement of its own: the next one then
-- sees everything that was committed while this one waited.
-- +goose StatementBegin
create function audit_seal(most_rows integer) returns integer language plpgsql security definer set search_path = public, pg_temp as $$
declare
    head   audit_head;
    mark   bigint;
    shot   pg_snapshot;
    ids    bigint[];
    bodies bytea[];
    prevs  bytea[];
    hashes bytea[];
    n      integer;
    tree   bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'audit_seal works in READ COMMITTED transactions only';
    end if;
    if pg_current_xact_id_if_assigned() is null then
        -- Of a sequence that has given nothing yet, last_value is 1.
        select case when s.is_called then s.last_value else 0 end into strict mark from audit_pending_id_seq s;
    end if;
    select * into strict head from audit_head for update;
    shot := pg_current_snapshot();
    select array_agg(p.id), array_agg(int8send((extract(epoch from p.at) * 1000000)::bigint)
           || audit_opt(p.actor_type) || audit_opt(p.actor_id) || audit_opt(p.session_id) || audit_opt(p.ip) || audit_opt(p.request_id)
           || audit_opt(p.action) || audit_opt(p.op) || audit_opt(p.table_name) || audit_opt(p.row_id) || audit_lp(p.changes_digest))
    into ids, bodies from (select * from audit_pending q where q.id > head.sealed_to order by q.id limit most_rows) p;
    n := coalesce(cardinality(ids), 0);
    if n = 0 then
        return 0;
    end if;
    for i in 1 .. n loop
        prevs[i] := head.hash;
        head.hash := sha256('\x00'::bytea || '\x00000008'::bytea || 'audit.v1'::bytea || int8send(head.seq + i) || bodies[i] || '\x00000020'::bytea || head.hash);
        hashes[i] := head.hash;
    end loop;
    insert into audit_log (seq, at, actor_type, actor_id, session_id, ip, request_id, action, op, table_name, row_id, salt, changes, changes_digest, prev_hash, hash)
    select head.seq + u.place, p.at, p.actor_type, p.actor_id, p.session_id, p.ip, p.request_id, p.action, p.op, p.table_name, p.row_id, p.salt, p.changes, p.changes_digest, u.prev, u.hash
    from unnest(ids, prevs, hashes) with ordinality u (id, prev, hash, place) join audit_pending p on p.id = u.id;
    delete from audit_pending p where p.id = any (ids);
    for tree in select generate_series((head.seq / 256 + 1) * 256, head.seq + n, 256) loop
        perform audit_tree_add(tree);
    end loop;
    if n < most_rows and mark is not null and head.mark_xid <= pg_snapshot_xmin(shot) then
        head.sealed_to := head.mark_id;
        head.mark_id := mark;
        head.mark_xid := pg_current_xact_id();
    end if;
    update audit_head set seq = head.seq + n, hash = head.hash, sealed_to = head.sealed_to, mark_id = head.mark_id, mark_xid = head.mark_xid;
    return n;
end $$;
-- +goose StatementEnd

-- Empties the next entries that are older, and leaves a note that names all that were
-- emptied so far. Returns how many it emptied.
-- +goose StatementBegin
create function audit_empty(older_than timestamptz, most_rows integer) returns integer language plpgsql security definer set search_path = public, pg_temp as $$
declare
    done  bigint;
    until bigint;
begin
    select a.emptied_to into strict done from audit_head a for update;
    select max(w.seq) into until from (
        select l.seq, bool_and(l.at < older_than) over (order by l.seq) as old
        from (select * from audit_log where seq > done order by seq limit most_rows) l
    ) w where w.old;
    if until is null then
        return 0;
    end if;
    update audit_log set changes = null, salt = null where seq > done and seq <= until and changes is not null;
    update audit_head set emptied_to = until;
    perform audit_write('note', 'audit_log', null, jsonb_build_object('note', jsonb_build_object('what', 'emptied', 'from_seq', 1, 'to_seq', until))::text);
    return until - done;
end $$;
-- +goose StatementEnd

-- Empties all entries about one row, and leaves a note that names them. Returns how
-- many there were.
-- +goose StatementBegin
create function audit_erase(of_table text, of_row text) returns integer language plpgsql security definer set search_path = public, pg_temp as $$
declare
    seqs bigint[];
begin
    with emptied as (
        update audit_log set changes = null, salt = null
        where table_name = of_table and row_id = of_row and changes is not null and table_name <> 'audit_log'
        returning seq
    )
    select array_agg(seq order by seq) into seqs from emptied;
    if seqs is null then
        return 0;
    end if;
    perform audit_write('note', 'audit_log', null, jsonb_build_object('note',
        jsonb_build_object('what', 'erased', 'table', of_table, 'row_id', of_row, 'seqs', to_jsonb(seqs)))::text);
    return cardinality(seqs);
end $$;
-- +goose StatementEnd

select audit_cover('installation');
select audit_cover('users', '{password_hash}');
select audit_cover('auth_sessions', '{}', '{last_used_at}');
select audit_cover('refresh_tokens', '{token_sha256}');
select audit_cover('mail_tokens', '{token_sha256}');
select audit_cover('api_tokens', '{token_sha256}', '{last_used_at}');
select audit_cover('identities', '{}', '{last_used_at}');
select audit_cover('totp_factors', '{secret}', '{last_step}');
select audit_cover('recovery_codes', '{code_sha256}');
select audit_cover('signing_keys', '{private_key}');
select audit_cover('audit_keys', '{private_key}');
select audit_cover('posts');
select audit_cover('sites', '{import_secret}');
select audit_cover('site_api_keys', '{key_sha256}', '{last_used_at}');
select audit_cover('site_zones');
select audit_cover('webhook_replays', '{}', '{after_at,after_id}');
select audit_cover('webhook_alerts');
select audit_cover('webhook_retention', '{}', '{emptied_until}');

revoke execute on function audit_write(text, text, text, text) from public;
revoke execute on function audit_cover(regclass, text[], text[]) from public;
revoke execute on function audit_tree_add(bigint) from public;
revoke execute on function audit_seal(integer) from public;
revoke execute on function audit_note(text, text, jsonb) from public;
revoke execute on function audit_empty(timestamptz, integer) from public;
revoke execute on function audit_erase(text, text) from public;
grant execute on function audit_seal(integer) to waypost_app;
grant execute on function audit_note(text, text, jsonb) to waypost_app;
grant execute on function audit_empty(timestamptz, integer) to waypost_app;
grant execute on function audit_erase(text, text) to waypost_app;
grant select on audit_excluded, audit_pending, audit_log, audit_head, audit_tree to waypost_app;
grant select, insert on audit_checkpoints to waypost_app;
grant select, insert, update on audit_keys, audit_verifications to waypost_app;

-- +goose Down
-- +goose StatementBegin
do $$
declare
    t record;
begin
    for t in select tgrelid::regclass as target, tgname from pg_trigger where tgname in ('audit_row', 'audit_truncate', 'audit_insert', 'audit_update', 'audit_delete') loop
        execute format('drop trigger %I on %s', t.tgname, t.target);
    end loop;
end $$;
-- +goose StatementEnd
drop function audit_erase(text, text);
drop function audit_empty(timestamptz, integer);
drop function audit_seal(integer);
drop function audit_tree_add(bigint);
drop function audit_note(text, text, jsonb);
drop function audit_webhook_events();
drop function audit_webhook_line(uuid, text, text, text, bytea);
drop function audit_uncovered();
drop function audit_cover(regclass, text[], text[]);
drop function audit_no_truncate();
drop function audit_row();
drop function audit_shown(jsonb, text[]);
drop function audit_write(text, text, text, text);
drop function audit_actor(text);
drop function audit_opt(text);
drop function audit_lp(bytea);
drop table audit_verifications, audit_keys, audit_checkpoints, audit_tree, audit_head, audit_log, audit_pending, audit_excluded;
alter table installation drop column install_id;
