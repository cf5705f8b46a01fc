-- Who signs in often, who is attacked, and where an account is at home.

-- +goose Up
-- By bytes, so that all subjects that begin alike are one range of the index.
alter table throttles alter column subject type text collate "C";

-- The networks (an IPv4 address, an IPv6 /64) from which an account signed in, or set
-- its password by a mailed link, of late: strangers' failures don't count there.
create table sign_in_networks (
    user_id bigint      not null references users (id) on delete cascade,
    network cidr        not null,
    seen_at timestamptz not null,
    primary key (user_id, network)
);
create index sign_in_networks_seen on sign_in_networks (seen_at);
insert into audit_excluded (pattern, reason) values ('sign\_in\_networks', 'counters');
grant select, insert, update, delete on sign_in_networks to waypost_app;

insert into sign_in_networks (user_id, network, seen_at)
select user_id, network, max(created_at) from (
    select user_id, created_at,
        case when address like '%:%' then network(set_masklen(split_part(address, '%', 1)::inet, 64)) else address::cidr end as network
    from auth_sessions where address ~ '^[0-9a-fA-F.:]+(%.*)?$' and created_at > now() - interval '30 days'
) s group by user_id, network;

-- An account's sessions from the newest on.
create index auth_sessions_made on auth_sessions (user_id, created_at desc, id desc);
drop index auth_sessions_user;

-- An account has at most 50 sessions that hold.
select set_config('waypost.actor_type', 'system', true), set_config('waypost.action', 'system:migration 23', true);
update auth_sessions set revoked_at = now() where id in (
    select id from (
        select id, row_number() over (partition by user_id order by created_at desc, id desc) as place
        from auth_sessions where revoked_at is null and expires_at > now()
    ) s where place > 50
);

-- +goose Down
create index auth_sessions_user on auth_sessions (user_id);
drop index auth_sessions_made;
delete from audit_excluded where pattern = 'sign\_in\_networks';
drop table sign_in_networks;
alter table throttles alter column subject type text collate "default";
