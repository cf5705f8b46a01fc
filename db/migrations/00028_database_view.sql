-- What the database page and its console may show, and rights for the console's role.

-- +goose Up
-- The columns that are no secret, table by table, and those that are known and hidden.
-- From this one list come the rights of waypost_viewer, what the pages show of a table,
-- and what the audit log writes in clear: a column that is not in shown is hidden from
-- the first two and "[redacted]" in the third, so a new one is until a migration says
-- with show_columns what it is. A table that is not in the list at all is not shown.
create table visible_columns (
    table_name text   primary key,
    shown      text[] not null,
    hidden     text[] not null default '{}',
    check (not shown && hidden)
);
insert into audit_excluded (pattern, reason) values ('visible\_columns', 'written by migrations');
insert into visible_columns (table_name, shown, hidden) values
    ('api_tokens', '{id,user_id,name,prefix,scopes,created_at,expires_at,last_used_at,revoked_at,last_address,allowed_networks,rate,replaced_at,expiry_told_at}', '{token_sha256}'),
    ('audit_checkpoints', '{size,root,head_hash,at,note}', '{}'),
    ('audit_excluded', '{pattern,reason}', '{}'),
    ('audit_head', '{one_row,seq,hash,emptied_to,sealed_to,mark_id,mark_xid}', '{}'),
    ('audit_keys', '{one_row,public_key,created_at}', '{private_key,wrapping_key_id}'),
    ('audit_log', '{seq,at,actor_type,actor_id,session_id,ip,request_id,action,op,table_name,row_id,changes,prev_hash,hash}', '{salt,changes_digest}'),
    ('audit_pending', '{id,at,actor_type,actor_id,session_id,ip,request_id,action,op,table_name,row_id,changes}', '{salt,changes_digest}'),
    ('audit_tree', '{level,idx,hash}', '{}'),
    ('audit_verifications', '{kind,at,to_seq,to_hash,ok,bad_seq,bad_reason,alerted}', '{}'),
    ('auth_sessions', '{id,user_id,created_at,expires_at,revoked_at,methods,authenticated_at,last_used_at,address,user_agent}', '{}'),
    ('blog_words', '{id,created_at,words}', '{}'),
    ('blogs', '{id,author_id,title,slug,excerpt,content,image,published,published_at,created_at,updated_at}', '{}'),
    ('cron', '{name,description,schedule,timezone,everywhere,next_run_at,declared_at,last_run_at,last_outcome,last_error,last_duration}', '{}'),
    ('email_changes', '{id,user_id,session_id,signed_in_at,old_email,old_email_key,new_email,new_email_key,created_at,expires_at,mailed_at,confirmed_at,undo_until,closed_at,closed_by}', '{confirm_sha256,undo_sha256}'),
    ('events', '{site_id,occurred_at,id,day,visitor,session_id,path,name,props}', '{}'),
    ('goose_db_version', '{id,version_id,is_applied,tstamp}', '{}'),
    ('identities', '{id,user_id,provider,subject,email,created_at,last_used_at}', '{}'),
    ('imported_lines', '{site_id,ordinal,run}', '{line_sha256}'),
    ('installation', '{one_row,compatible_from,dev_since,install_id}', '{}'),
    ('job_runners', '{id,seen_at}', '{}'),
    ('mail_allowances', '{allowance,times,forget_at}', '{address}'),
    ('mail_tokens', '{user_id,purpose,email_key,created_at,expires_at,used_at}', '{token_sha256}'),
    ('mails', '{id,user_id,recipient,template,subject,message_id,status,error,attempts,job_id,claimed_until,created_at,queued_at,sent_at}', '{text,html,secret,secret_key_id,cause}'),
    ('oauth_codes', '{provider,subject,email,email_verified,first_name,last_name,created_at,expires_at}', '{code_sha256,code_challenge}'),
    ('oauth_flows', '{provider,created_at,expires_at}', '{state_sha256,browser_sha256,return_url,code_challenge}'),
    ('page_sessions', '{session_id,ends_at}', '{cookie_sha256}'),
    ('post_words', '{id,created_at,words}', '{}'),
    ('posts', '{id,author_id,title,body,tags,created_at,updated_at}', '{}'),
    ('recovery_codes', '{user_id,used_at}', '{code_sha256}'),
    ('refresh_tokens', '{session_id,created_at,used_at,generation}', '{token_sha256}'),
    ('reported_events', '{site_id}', '{event_digest}'),
    ('river_job', '{id,state,attempt,max_attempts,attempted_at,created_at,finalized_at,scheduled_at,priority,attempted_by,kind,queue,tags,unique_states}', '{args,errors,metadata,unique_key}'),
    ('river_leader', '{elected_at,expires_at,leader_id,name}', '{}'),
    ('river_migration', '{line,version,created_at}', '{}'),
    ('river_notification', '{id,created_at,topic}', '{payload}'),
    ('river_queue', '{name,created_at,paused_at,updated_at}', '{metadata}'),
    ('rollup_blocks', '{site_id,level,first_day}', '{}'),
    ('rollup_counts', '{site_id,dimension,part,level,first_day}', '{counts}'),
    ('rollup_days', '{site_id,day,first_at,last_at,pageviews,visitors,sessions,bounces,duration_us}', '{}'),
    ('rollup_hours', '{site_id,day,starts_at,pageviews,visitors}', '{}'),
    ('rollup_labels', '{site_id,id,label,value}', '{digest}'),
    ('rollup_sites', '{site_id,generation,last_label}', '{}'),
    ('rollup_visitors', '{site_id,day,visitor}', '{portion}'),
    ('service_accounts', '{id,user_key,name,role,active,created_at}', '{}'),
    ('session_heads', '{site_id,day,visitor,session_id,last_at,edition,former_session,former_at,stale}', '{}'),
    ('sessions', '{site_id,day,id,visitor,started_at,last_at,pageviews,events,entry_at,entry_path,exit_at,exit_path,source,utm_source,utm_medium,utm_campaign,utm_term,utm_content,country,device,browser,os}', '{}'),
    ('sign_in_networks', '{user_id,network,seen_at}', '{}'),
    ('signing_keys', '{kid,public_key,created_at,retires_at,signs_from}', '{private_key,wrapping_key_id}'),
    ('site_api_keys', '{site_id,id,name,scope,prefix,created_at,expires_at,revoked_at,last_used_at}', '{key_sha256}'),
    ('site_days', '{site_id,day,starts_at,ends_at,state}', '{salt}'),
    ('site_drops', '{site_id,day,reason,count}', '{}'),
    ('site_imports', '{site_id,run}', '{}'),
    ('site_zones', '{site_id,effective_from,timezone}', '{}'),
    ('sites', '{id,name,domain,timezone,site_key,created_at,updated_at,deleted_at,has_zone_history}', '{import_secret}'),
    ('throttles', '{name,subject,count,blocked_until,forget_at}', '{}'),
    ('totp_factors', '{user_id,last_step,created_at,confirmed_at,unproven}', '{secret,secret_key_id}'),
    ('upload_usage', '{owner_id,bytes}', '{}'),
    ('uploads', '{id,owner_id,filename,content_type,size,sha256,status,width,height,backend,key,staging_key,held,expires_at,claimed_until,thumbnail_key,thumbnail_type,created_at,updated_at}', '{}'),
    ('users', '{id,first_name,last_name,email,email_key,role,active,created_at,updated_at,email_verified_at}', '{password_hash}'),
    ('visible_columns', '{table_name,shown,hidden}', '{}'),
    ('webhook_alerts', '{provider,streak,alerted_at}', '{}'),
    ('webhook_attempts', '{event_id,number,at,outcome,error,duration_ms}', '{}'),
    ('webhook_bindings', '{provider,event_type,announced_at}', '{}'),
    ('webhook_events', '{id,provider,event_type,external_id,status,handler_error,retry_count,processed_at,created_at,raw_sha256,headers,lease_id,lease_until,attempts,tries,interrupted,attempt_at,attempt_ms,job_id}', '{raw}'),
    ('webhook_rejected', '{id,provider,reason,address,headers,size,created_at}', '{}'),
    ('webhook_replay_events', '{replay_id,event_id}', '{}'),
    ('webhook_replays', '{id,filter,status,matched,after_at,after_id,created_at,finished_at}', '{}'),
    ('webhook_retention', '{single,emptied_until}', '{}');

-- Adds columns to the list. Every migration that creates a table or a column calls it.
-- +goose StatementBegin
create function show_columns(of_table text, shown text[], hidden text[] default '{}') returns void language sql set search_path = public, pg_temp as $$
insert into visible_columns as v (table_name, shown, hidden) values (of_table, show_columns.shown, show_columns.hidden)
on conflict (table_name) do update set
    shown  = array(select c from unnest(v.shown || excluded.shown) c where c <> all (excluded.hidden) group by c order by min(array_position(v.shown || excluded.shown, c))),
    hidden = array(select c from unnest(v.hidden || excluded.hidden) c where c <> all (excluded.shown) group by c order by c) $$;
-- +goose StatementEnd

-- The trigger of a table, as before, with the list: what it doesn't show is a secret.
-- +goose StatementBegin
create or replace function audit_row() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    keys    text[] := tg_argv[0];
    secrets text[] := tg_argv[1];
    touches text[] := tg_argv[2];
    shown   text[];
    o       jsonb;
    n       jsonb;
    k       text;
    id      text;
    changes jsonb;
begin
    perform audit_actor(tg_table_name);
    if tg_op = 'INSERT' then
        n := to_jsonb(new);
    elsif tg_op = 'DELETE' then
        o := to_jsonb(old);
    else
        o := to_jsonb(old) - touches;
        n := to_jsonb(new) - touches;
        if o = n then
            return null;
        end if;
    end if;
    select v.shown into shown from visible_columns v where v.table_name = tg_table_name::text;
    if found and coalesce(n, o) - shown - secrets <> '{}'::jsonb then
        secrets := secrets || array(select jsonb_object_keys(coalesce(n, o) - shown - secrets));
    end if;
    if tg_op = 'INSERT' then
        changes := jsonb_build_object('new', audit_shown(n, secrets));
    elsif tg_op = 'DELETE' then
        changes := jsonb_build_object('old', audit_shown(o, secrets));
    else
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

-- Tables that are neither under the log nor excluded, and those whose list shows what
-- their trigger redacts, with what is wrong.
-- +goose StatementBegin
create or replace function audit_uncovered() returns table (table_name text, problem text) language sql stable set search_path = public, pg_temp as $$
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
    when t.tgfoid <> case when w.name = 'audit_truncate' then 'audit_no_truncate'::regproc
                          when w.name = 'audit_row' then 'audit_row'::regproc else 'audit_webhook_events'::regproc end then 'its trigger ' || w.name || ' calls another function'
    else 'visible_columns shows what its trigger ' || w.name || ' redacts' end)
from wanted w left join pg_trigger t on t.tgrelid = w.oid and t.tgname = w.name
left join visible_columns v on v.table_name = w.relname
where t.oid is null or t.tgenabled <> 'A'
   or t.tgfoid <> case when w.name = 'audit_truncate' then 'audit_no_truncate'::regproc
                       when w.name = 'audit_row' then 'audit_row'::regproc else 'audit_webhook_events'::regproc end
   or w.name = 'audit_row' and v.shown && coalesce(nullif(split_part(encode(t.tgargs, 'escape'), '\000', 2), ''), '{}')::text[]
group by w.relname order by w.relname $$;
-- +goose StatementEnd

-- What is wrong with the rights around the console, each as the statement that mends
-- it, and whether the current user may execute that. The rights of waypost_viewer, if
-- that role exists, are SELECT on the columns that the list shows and nothing else;
-- nobody makes temporary tables who doesn't own the database. Taking rights away from a
-- whole table takes those on columns too, so it may need to be asked again.
-- +goose StatementBegin
create function viewer_mends() returns table (statement text, possible boolean) language sql stable set search_path = public, pg_temp as $$
with viewer as (
    select oid from pg_roles where rolname = 'waypost_viewer'
), relation as (
    select c.oid, c.relname, c.relkind, c.relacl, pg_has_role(c.relowner, 'USAGE') as mine
    from pg_class c
    where c.relnamespace = (select relnamespace from pg_class where oid = 'installation'::regclass)
      and c.relowner = (select relowner from pg_class where oid = 'installation'::regclass)
), wanted as (
    select r.oid, a.attnum
    from visible_columns v join relation r on r.relname = v.table_name and r.relkind in ('r', 'p')
    join pg_attribute a on a.attrelid = r.oid and a.attname = any (v.shown) and a.attnum > 0 and not a.attisdropped
), held as (
    select r.oid, a.attnum, x.privilege_type
    from relation r join pg_attribute a on a.attrelid = r.oid and not a.attisdropped
    cross join lateral aclexplode(a.attacl) x join viewer on x.grantee = viewer.oid
)
select format('revoke all on %s %s from waypost_viewer', case r.relkind when 'S' then 'sequence' else 'table' end, r.oid::regclass), r.mine
from relation r join viewer on exists (select from aclexplode(r.relacl) x where x.grantee = viewer.oid)
union all
select format('revoke all (%I) on table %s from waypost_viewer', a.attname, r.oid::regclass), r.mine
from held h join relation r using (oid) join pg_attribute a on a.attrelid = h.oid and a.attnum = h.attnum
where h.privilege_type <> 'SELECT' or (h.oid, h.attnum) not in (select oid, attnum from wanted)
union all
select format('grant select (%s) on table %s to waypost_viewer', string_agg(quote_ident(a.attname), ', ' order by a.attnum), r.oid::regclass), r.mine
from wanted w join relation r using (oid) join viewer on true join pg_attribute a on a.attrelid = r.oid and a.attnum = w.attnum
where (r.oid, w.attnum, 'SELECT') not in (select oid, attnum, privilege_type from held)
group by r.oid, r.mine
union all
select format('grant usage on schema %I to waypost_viewer', n.nspname), pg_has_role(n.nspowner, 'USAGE')
from pg_namespace n join viewer on not has_schema_privilege(viewer.oid, n.oid, 'USAGE')
where n.oid = (select relnamespace from pg_class where oid = 'installation'::regclass)
union all
select format('revoke temporary on database %I from public', d.datname), pg_has_role(d.datdba, 'USAGE')
from pg_database d where d.datname = current_database()
  and exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x where x.grantee = 0 and x.privilege_type = 'TEMPORARY')
union all
select format('grant connect on database %I to waypost_viewer', d.datname), pg_has_role(d.datdba, 'USAGE')
from pg_database d join viewer on not has_database_privilege(viewer.oid, d.oid, 'CONNECT') where d.datname = current_database()
$$;
-- +goose StatementEnd

-- Does what viewer_mends says, as far as the current user may. The owner or an
-- administrator calls it once after making the role; `waypost migrate up` does the same.
-- Only a superuser can bound the temporary files of a role, which else a statement could
-- fill the disk with.
-- +goose StatementBegin
create function grant_viewer() returns text language plpgsql set search_path = public, pg_temp as $$
declare
    sql  text;
    done integer := 0;
begin
    for pass in 1 .. 2 loop
        for sql in select statement from viewer_mends() where possible loop
            execute sql;
            done := done + 1;
        end loop;
    end loop;
    if (select rolsuper from pg_roles where rolname = current_user) and exists (select from pg_roles where rolname = 'waypost_viewer') then
        alter role waypost_viewer set temp_file_limit = '1GB';
    end if;
    return done || ' rights mended';
end $$;
-- +goose StatementEnd

grant select on visible_columns to waypost_app;
grant execute on function viewer_mends() to waypost_app;
revoke execute on function viewer_mends() from public;
revoke execute on function grant_viewer() from public;
revoke execute on function show_columns(text, text[], text[]) from public;

-- Nobody but the application calls a function of ours.
grant execute on function webhook_job_lives(bigint) to waypost_app;
grant execute on function audit_lp(bytea) to waypost_app;
grant execute on function audit_opt(text) to waypost_app;
grant execute on function audit_actor(text) to waypost_app;
grant execute on function audit_shown(jsonb, text[]) to waypost_app;
grant execute on function audit_webhook_line(uuid, text, text, text, bytea) to waypost_app;
grant execute on function audit_uncovered() to waypost_app;
revoke execute on function webhook_job_lives(bigint) from public;
revoke execute on function audit_lp(bytea) from public;
revoke execute on function audit_opt(text) from public;
revoke execute on function audit_actor(text) from public;
revoke execute on function audit_shown(jsonb, text[]) from public;
revoke execute on function audit_webhook_line(uuid, text, text, text, bytea) from public;
revoke execute on function audit_uncovered() from public;
revoke execute on function audit_row() from public;
revoke execute on function audit_no_truncate() from public;
revoke execute on function audit_webhook_events() from public;
revoke execute on function words_due() from public;
revoke execute on function users_email_reserved() from public;

-- +goose Down
grant execute on function webhook_job_lives(bigint), audit_lp(bytea), audit_opt(text), audit_actor(text), audit_shown(jsonb, text[]), audit_webhook_line(uuid, text, text, text, bytea), audit_uncovered() to public;
-- +goose StatementBegin
do $$
begin
    if exists (select from pg_roles where rolname = 'waypost_viewer') then
        revoke all on all tables in schema public from waypost_viewer;
    end if;
end $$;
-- +goose StatementEnd
-- +goose StatementBegin
create or replace function audit_row() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
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
create or replace function audit_uncovered() returns table (table_name text, problem text) language sql stable set search_path = public, pg_temp as $$
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
drop function grant_viewer();
drop function viewer_mends();
drop function show_columns(text, text[], text[]);
drop table visible_columns;
delete from audit_excluded where pattern = 'visible\_columns';
